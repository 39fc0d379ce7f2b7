"""How fast the log is on this machine, beside what the machine itself can do in the same run.

A number alone says little where the speed of a machine varies threefold by the hour: wherever a ratio matters, the
log and its baseline take turns, and the ratio is the median of those of each turn.
"""
