"""The state of a group, and how a record changes it. Pure."""
