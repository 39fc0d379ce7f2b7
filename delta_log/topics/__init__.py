"""Topics as an owner and its readers hold them: the catalogue, and the state of each topic and partition."""
