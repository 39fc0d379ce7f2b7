"""`repair`: plans what can be repaired safely, and does it."""
