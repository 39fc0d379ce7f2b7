"""Small files into large ones, and the newest record of each key."""
