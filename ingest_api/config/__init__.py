"""Settings of the server: names, defaults, checks, and where they come from."""
