"""The command `sql`: queries of topics and groups."""
