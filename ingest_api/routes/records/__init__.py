"""Records: produce, fetch, follow, and the ids of producers."""
