"""What an admin asks of topics: pure questions, each written once for threads and for tasks."""
