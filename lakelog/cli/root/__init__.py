"""The commands that work on a root itself: check, repair, backup and restore."""
