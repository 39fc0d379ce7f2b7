"""Spark itself: sessions, the JVM and its jars, engines, streaming queries, and why one of them failed."""
