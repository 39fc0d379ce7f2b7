"""The command `produce`."""
