"""Backup and restore: a copy of a root as of one moment."""
