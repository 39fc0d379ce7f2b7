"""The check: what of a root is damaged, by looking alone."""
