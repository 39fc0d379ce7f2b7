"""The program `lakelog`, command by command, and what its commands share."""
