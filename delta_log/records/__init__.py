"""An append request: checked, partitioned, encoded, and compared with what its producer sent before. Pure."""
