"""The way from the journal to the tables: when a table is committed, and which segments the journal lets go."""
