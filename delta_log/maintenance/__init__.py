"""Work in the background and in jobs: folds, compaction, retention, deletion, history, leases, audit."""
