"""What a group decides, as records and a reply. Pure."""
