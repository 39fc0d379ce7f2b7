"""Descriptions of topics: small values as the server returns them."""

from __future__ import annotations

from typing import NamedTuple

import msgspec


class TopicDescription(NamedTuple):
    """A topic. `configs`: all in force, with the defaults; for a topic just created, only those set on it."""

    name: str
    partitions: int
    configs: dict[str, str]


class ConfigEntry(msgspec.Struct, frozen=True):
    """A setting of a topic. `source` is `DYNAMIC_TOPIC_CONFIG` if it is set on the topic itself."""

    name: str
    value: str
    source: str
    is_default: bool


class PartitionOffsets(msgspec.Struct, frozen=True):
    """Offsets of a partition. `end_offset`: the next record's; `offset`: the first at or after a time, or None."""

    beginning_offset: int
    end_offset: int
    offset: int | None = None


class Batch(msgspec.Struct, frozen=True):
    """A file of a partition's table: `count` records from `base_offset` to `last_offset`.

    `size` is in bytes, `position` is the size of all batches before it. `created_ms` is when it was added to the table,
    in milliseconds since 1970, and `file` its path below the table.
    """

    base_offset: int
    last_offset: int
    count: int
    size: int
    position: int
    created_ms: int
    file: str


class Batches(msgspec.Struct):
    batches: list[Batch]


class PutTopic(msgspec.Struct):
    """The server's description of a topic, as far as it is used."""

    name: str
    configs: dict[str, str]
    partitions: list[msgspec.Raw]


class Configs(msgspec.Struct):
    data: list[ConfigEntry]


class Cluster(msgspec.Struct):
    cluster_id: str


class Clusters(msgspec.Struct):
    data: list[Cluster]


class LogStart(msgspec.Struct):
    log_start_offset: int
