"""The command `jobs`."""
