"""Values of consumer groups: records, options, errors, assignments. Pure."""
