"""The command `jobs`: one job now, or jobs by a schedule."""
