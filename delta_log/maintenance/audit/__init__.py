"""Whether all records of a topic are there, in order."""
