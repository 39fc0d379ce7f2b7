"""The root: its place, its lock, its owner epochs, and how a later owner takes over."""
