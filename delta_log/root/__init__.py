"""The root: its location, its lock, its owner epochs, and the takeover by a later owner."""
