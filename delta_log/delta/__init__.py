"""Tables of Delta Lake: actions, snapshots, conflicts, the committer, checkpoints, parquet files."""
