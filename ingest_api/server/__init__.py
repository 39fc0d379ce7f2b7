"""The server process: the app, its listener, its start and its end."""
