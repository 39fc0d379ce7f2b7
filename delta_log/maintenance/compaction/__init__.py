"""Small files into large ones, and key compaction."""
