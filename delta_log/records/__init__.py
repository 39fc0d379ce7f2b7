"""An append request: checked, partitioned, encoded, and held against what its producer sent before. Pure."""
