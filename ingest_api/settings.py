"""The settings of a server."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ServerSettings:
    """What a server can be told."""

    auto_create_topics: bool = False
    default_partitions: int = 1
    max_body_bytes: int = 64 * 1024 * 1024
    max_bodies_bytes: int = 128 * 1024 * 1024
    max_reads_bytes: int = 256 * 1024 * 1024
    max_records: int = 100_000
    max_poll_ms: int = 60_000
    request_timeout_ms: int = 30_000
    broker_id: int = 1
