"""Topics: make, describe, delete."""
