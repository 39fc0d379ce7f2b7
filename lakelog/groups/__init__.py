"""What an admin asks of groups: pure questions, each written once for threads and for tasks."""
