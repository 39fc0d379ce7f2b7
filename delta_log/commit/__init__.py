"""From the journal to the tables: which table is committed when, and which segments the journal can let go."""
