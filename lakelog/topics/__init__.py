"""The admin's requests about topics, each written once for threads and for tasks. Pure."""
