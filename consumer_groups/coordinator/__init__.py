"""The group coordinator: makes decisions durable, wakes polls, keeps deadlines."""
