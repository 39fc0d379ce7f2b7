"""The audit: whether all records of a topic are there, and in order."""
