"""Values and rules of the log: names, schema, settings, errors. Pure: no disk, socket, clock or thread."""
