"""Startup and shutdown of a log: opening a root, recovery, upgrades."""
