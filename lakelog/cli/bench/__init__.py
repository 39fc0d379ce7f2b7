"""The command `bench`: how fast a server is for a client here and now, in the manner of Kafka's performance tests."""
