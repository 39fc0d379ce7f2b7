"""The benchmarks there are, in the order in which they run. Imports none of them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Benchmark:
    """The docstring of `function` says what each of its rows means."""

    module: str
    summary: str
    function: str = "run"


BENCHMARKS = {
    "baselines": Benchmark("benchmarks.baselines", "what this machine can do without the log"),
    "append": Benchmark("benchmarks.append", "requests of 1 to 10,000 records, 1 to 64 callers"),
    "arrow": Benchmark("benchmarks.append", "the same for Arrow requests", "run_arrow"),
    "sustained": Benchmark("benchmarks.sustained", "appends and tables over a longer time"),
    "read": Benchmark("benchmarks.read", "the tail, catching up, and random fetches"),
    "visible": Benchmark("benchmarks.visible", "from the acknowledgement to a row in the Delta table"),
    "restart": Benchmark("benchmarks.restart", "starting with a million records in the journal"),
    "idle": Benchmark("benchmarks.idle_topics", "a thousand topics that nobody writes to"),
    "http-baselines": Benchmark("benchmarks.http_baselines", "what this machine can do over HTTP without the log"),
    "http-json": Benchmark("benchmarks.http_produce", "requests of 1 to 1,000 records as JSON, 1 to 64 connections"),
    "http-lines": Benchmark("benchmarks.http_produce", "the same for NDJSON and single values", "run_lines"),
    "http-arrow": Benchmark("benchmarks.http_produce", "the same for Arrow streams", "run_arrow"),
    "http-values": Benchmark("benchmarks.http_produce", "keys, and values of 1,000 bytes", "run_values"),
    "http-fetch": Benchmark("benchmarks.http_fetch", "reading by offset, in every format"),
    "http-delivery": Benchmark("benchmarks.http_delivery", "from producing to a reader who waits"),
    "http-idle": Benchmark("benchmarks.http_idle", "a thousand readers who wait for what never comes"),
    "group-commits": Benchmark("benchmarks.group_commits", "commits of one member, and of many"),
    "group-changes": Benchmark("benchmarks.group_changes", "members that join, leave and crash"),
    "group-reading": Benchmark("benchmarks.group_reading", "a group's reading beside a plain one"),
    "client": Benchmark("benchmarks.clients", "the Producer and the Consumer of the Python package"),
    "http-profile": Benchmark("benchmarks.http_profile", "where the server's time goes"),
}
