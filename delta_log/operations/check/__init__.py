"""The check: finds damage in a root, by reading only."""
