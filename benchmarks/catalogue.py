"""The benchmarks there are, in the order in which they run. Imports none of them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Benchmark:
    """The docstring of `function` says what each of its rows means. `spark` is for what needs a JVM."""

    module: str
    summary: str
    function: str = "run"
    spark: bool = False
    #: how many times as long as others it may take until it is taken for hung
    patience: int = 1


BENCHMARKS = {
    "baselines": Benchmark("benchmarks.baselines", "what this machine can do without the log"),
    "append": Benchmark("benchmarks.append", "requests of 1 to 10,000 records, 1 to 64 callers"),
    "arrow": Benchmark("benchmarks.append", "the same for Arrow requests", "run_arrow"),
    "sustained": Benchmark("benchmarks.sustained", "appends and tables over a longer time"),
    "read": Benchmark("benchmarks.read", "the tail, catching up, and random fetches"),
    "visible": Benchmark("benchmarks.visible", "from the acknowledgement to a row in the Delta table"),
    "restart": Benchmark("benchmarks.restart", "starting with a million records in the journal"),
    "object-store": Benchmark("benchmarks.object_store", "acknowledgements in a bucket, and a fail-over there"),
    "idle": Benchmark("benchmarks.idle_topics", "a thousand topics that nobody writes to"),
    "soak": Benchmark("benchmarks.soak", "a table after very many commits", patience=4),
    "retained": Benchmark("benchmarks.retained", "a hundred times as many files, and who notices"),
    "busy": Benchmark("benchmarks.busy_topics", "two hundred topics that are all written to"),
    "http-baselines": Benchmark("benchmarks.http_baselines", "what this machine can do over HTTP without the log"),
    "http-json": Benchmark("benchmarks.http_produce", "requests of 1 to 1,000 records as JSON, 1 to 64 connections"),
    "http-lines": Benchmark("benchmarks.http_produce", "the same for NDJSON and single values", "run_lines"),
    "http-arrow": Benchmark("benchmarks.http_produce", "the same for Arrow streams", "run_arrow"),
    "http-values": Benchmark("benchmarks.http_produce", "keys, and values of 1,000 bytes", "run_values"),
    "http-fetch": Benchmark("benchmarks.http_fetch", "reading by offset, in every format"),
    "http-delivery": Benchmark("benchmarks.http_delivery", "from producing to a reader who waits"),
    "http-revisions": Benchmark("benchmarks.http_revisions", "processor time of requests, beside another revision"),
    "http-idle": Benchmark("benchmarks.http_idle", "a thousand readers who wait for what never comes"),
    "group-commits": Benchmark("benchmarks.group_commits", "commits of one member, and of many"),
    "group-changes": Benchmark("benchmarks.group_changes", "members that join, leave and crash"),
    "group-large": Benchmark("benchmarks.group_large", "who waits while a group shares out very many partitions"),
    "group-reading": Benchmark("benchmarks.group_reading", "a group's reading beside a plain one"),
    "idempotence": Benchmark("benchmarks.idempotence", "requests with numbers, and without", patience=2),
    "transactions": Benchmark("benchmarks.transactions", "begun, given records and committed; and a start on many"),
    "client": Benchmark("benchmarks.clients", "the Producer and the Consumer of the Python package"),
    "command-line": Benchmark("benchmarks.command_line", "help, and lines in and out beside the Python clients"),
    "sql-first": Benchmark("benchmarks.sql_first", "from the shell to the first line of an answer by SQL"),
    "jobs-retention": Benchmark("benchmarks.jobs_retention", "a table of very many files, some of them due"),
    "jobs-compaction": Benchmark("benchmarks.jobs_compaction", "files into larger ones, beside pyarrow", spark=True),
    "jobs-key-compaction": Benchmark("benchmarks.jobs_key_compaction", "the last record of each key", spark=True),
    "jobs-scan": Benchmark("benchmarks.jobs_scan", "whole topics, natively and by the Spark source", spark=True),
    "jobs-latency": Benchmark("benchmarks.jobs_latency", "from an acknowledgement to a stream's function", spark=True),
    "jobs-start": Benchmark("benchmarks.jobs_start", "how long a job takes to begin", spark=True),
    "http-profile": Benchmark("benchmarks.http_profile", "where the server's time goes"),
}
