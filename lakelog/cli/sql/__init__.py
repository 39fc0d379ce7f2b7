"""The command `sql`."""
