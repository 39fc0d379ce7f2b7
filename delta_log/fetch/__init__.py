"""Reads by offset and by time, from memory and from files, and SQL over the tables."""
