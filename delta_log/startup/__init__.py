"""The way from a place to a running log, and back: opening, recovery, upgrades."""
