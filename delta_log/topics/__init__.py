"""Topics in memory: the catalogue, and the state of each topic and partition."""
