"""Common parts of all commands: parsing, exit codes, output.

It knows no command and no room of the log.
"""
