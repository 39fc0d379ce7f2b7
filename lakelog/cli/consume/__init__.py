"""The command `consume`."""
