"""Compaction: merges small files into large ones, and keeps the newest record of each key."""
