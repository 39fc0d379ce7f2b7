"""The audit: checks that all records of a topic are present and in order."""
