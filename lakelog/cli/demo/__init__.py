"""The command `demo`: a server with producers and a group at work, and every second how they are doing."""
