"""What all commands of the command line share: how they are called, how they end, and how they show what they found.

It knows no command, and of the log's rooms nothing.
"""
