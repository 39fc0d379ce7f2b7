"""`lakelog dlq`: what lies among the dead letters, and sending it back, by the routes that everybody has."""
