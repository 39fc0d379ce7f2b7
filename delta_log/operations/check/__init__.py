"""`check`: looks at a root, and names what is damaged."""
