"""The way from a request to its acknowledgement: offsets, the commit queue, one synced write for many requests."""
