"""The command `consume`: records of topics to the output."""
