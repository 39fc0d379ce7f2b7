"""Assignors: rules that assign partitions to the members of a group, one file each.

They know subscribers and partitions. They must not know groups, generations, HTTP or time.
"""
