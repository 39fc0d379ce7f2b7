"""Delta Lake by our own committer: actions, snapshots, conflicts, checkpoints, parquet files."""
