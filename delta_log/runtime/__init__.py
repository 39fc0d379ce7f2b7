"""Access to the operating system: system calls, the clock, the GIL, free space on the disk."""
