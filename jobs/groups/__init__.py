"""Consumer groups over HTTP: a client, a member, start offsets, and dead letters."""
