"""The command `doctor`: whether a place can keep a log, tried before the first commit."""
