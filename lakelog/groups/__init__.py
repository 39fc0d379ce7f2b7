"""The admin's requests about groups, each written once for threads and for tasks. Pure."""
