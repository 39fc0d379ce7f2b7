"""What operators see: metrics, health, readiness, the server's log."""
