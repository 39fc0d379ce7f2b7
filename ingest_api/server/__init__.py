"""The server process: listeners, opening, the app, draining."""
