"""Requests and answers of v2's and lakelog's own routes of topics, in Karapace's shapes. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

import msgspec

from ingest_api.web.parameters import INT64_MAX
from ingest_api.web.route_spec import Content, ResponseSpec

Partitions = Annotated[int, msgspec.Meta(ge=1, le=10_000)]
ConfigValue = str | int | float | None


class ReplicaView(msgspec.Struct):
    broker: int
    leader: bool = True
    in_sync: bool = True


class PartitionView(msgspec.Struct):
    partition: int
    leader: int
    replicas: list[ReplicaView]


class TopicView(msgspec.Struct):
    """`configs` are settings under Kafka's names: all in force; after a PUT those of the topic itself."""

    name: str
    configs: dict[str, str]
    partitions: list[PartitionView]


class OffsetsView(msgspec.Struct):
    """`end_offset` is the next one that a record will be given, `offset` the earliest at or after an asked time."""

    beginning_offset: int
    end_offset: int
    offset: int | msgspec.UnsetType | None = msgspec.UNSET


class TopicRequest(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """What a topic shall be. What is left out is the server's default, and is not compared with what is there."""

    partitions: Partitions | None = None
    configs: dict[str, ConfigValue] | None = None


class DeleteRecordsRequest(msgspec.Struct, forbid_unknown_fields=True):
    """Everything below `before_offset` goes; -1 is the end."""

    before_offset: Annotated[int, msgspec.Meta(ge=-1, le=INT64_MAX)]


class DeleteRecordsView(msgspec.Struct):
    log_start_offset: int


class Brokers(msgspec.Struct):
    brokers: list[int]


def answers(shape: object, doc: str, status: int = 200, headers: Mapping[str, str] | None = None) -> ResponseSpec:
    """Declare an answer of v2 without records, in any of its media types."""
    media = ("application/vnd.kafka.v2+json", "application/json", "application/vnd.kafka+json")
    return ResponseSpec(status, doc, Content(dict.fromkeys(media, shape)), headers or {})


def takes(shape: object, *, required: bool = True, doc: str = "") -> Content:
    media = ("application/json", "application/vnd.kafka.v2+json", "application/vnd.kafka+json")
    return Content(dict.fromkeys(media, shape), required=required, doc=doc)
