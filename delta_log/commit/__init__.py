"""From the journal to the tables: when a table is committed, and when journal segments are freed."""
