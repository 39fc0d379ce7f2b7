"""Delta Lake tables: actions, snapshots, conflicts, commits, checkpoints, parquet files."""
