"""The command `selftest`: kills of a writer, and a count of what they leave."""
