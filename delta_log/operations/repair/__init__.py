"""The repair: a plan of what can be repaired safely, and its execution."""
