"""The command `dlq`: dead letters listed, shown, and sent back."""
