"""Append requests: checked, partitioned, encoded, and compared with earlier ones of their producer. Pure."""
