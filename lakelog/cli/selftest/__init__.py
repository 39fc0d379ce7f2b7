"""The command `selftest`."""
