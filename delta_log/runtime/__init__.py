"""What the log asks of the operating system: system calls, the clock, the interpreter lock, room on the disk."""
