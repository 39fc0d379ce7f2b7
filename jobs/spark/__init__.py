"""Spark itself: sessions, the JVM and its jars, engines, streaming queries, and causes of failures."""
