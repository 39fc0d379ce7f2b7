"""Work in the background and in jobs: retention, deletion, history, leases, and the maintenance API for jobs."""
