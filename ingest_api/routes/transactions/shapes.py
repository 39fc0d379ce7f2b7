"""Requests and answers of the routes of transactions. Pure.

A time is in milliseconds since 1970.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal

import msgspec

from consumer_groups.decisions.commits import Commitment
from consumer_groups.decisions.transactional_offsets import Moved
from consumer_groups.model.assignment import TopicPartition
from delta_log.transactions.transaction import Known
from delta_log.transactions.transaction_log import Stored
from ingest_api.routes.groups.instance_shapes import MOST_NAMED, CommitEntry, each_once
from ingest_api.routes.records.receipts import Range
from ingest_api.web.errors import Refusal
from ingest_api.web.parameters import INT64_MAX

_Generation = Annotated[int, msgspec.Meta(ge=0, le=INT64_MAX)]
_Version = Annotated[int, msgspec.Meta(ge=0, le=INT64_MAX)]
_Timeout = Annotated[int, msgspec.Meta(ge=1, le=INT64_MAX)]


class BeginRequest(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """Whoever had this `transactional_id` before is shut out. `timeout_ms` is when the transaction aborts by itself.

    A `version` is committed once: while it is open all who begin it are given one transaction.
    """

    transactional_id: str
    timeout_ms: _Timeout | None = None
    version: _Version | None = None


class CommitTransactionRequest(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """With `stages` these count, in this order, and what is in none."""

    stages: Annotated[list[str], msgspec.Meta(max_length=MOST_NAMED)] | None = None


class BegunView(msgspec.Struct):
    """`id` goes into `Transaction-Id`; numbered requests in it have this `producer_id` and `epoch`, and begin at 0."""

    id: str
    producer_id: str
    epoch: int
    timeout_ms: int


class OffsetsRequest(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """Without an `instance` it is for groups in which nobody reads."""

    group: str
    offsets: Annotated[list[CommitEntry], msgspec.Meta(min_length=1, max_length=MOST_NAMED)]
    instance: str | None = None
    generation: _Generation | None = None


class StoredView(msgspec.Struct):
    """Where records of one topic are: a dense run in each partition."""

    topic: str
    ranges: list[Range]


class MovedView(msgspec.Struct):
    group: str
    topic: str
    partition: int
    next_offset: int


class TransactionView(msgspec.Struct):
    """`why` it was aborted; the rest is null where it is not committed.

    `ranges` are of each topic, `requests` of each request in the order in which they came, null where those were more
    than a thousand; `offsets` are those of groups.
    """

    id: str
    state: Literal["open", "committed", "aborted"]
    why: str | None = None
    ranges: list[StoredView] | None = None
    requests: list[StoredView] | None = None
    offsets: list[MovedView] | None = None
    committed_at_ms: int | None = None


def show(known: Known) -> TransactionView:
    done = known.committed
    if done is None:
        return TransactionView(known.id, known.state, None if known.why is None else str(known.why))
    requests = None if done.requests is None else _show_stored(done.requests)
    offsets = [MovedView(**each) for note in done.notes for each in note]
    ranges = _show_stored(done.ranges)
    return TransactionView(known.id, "committed", None, ranges, requests, offsets, done.decided_at_ms)


def _show_stored(stored: Sequence[Stored]) -> list[StoredView]:
    return [
        StoredView(each.topic, [Range(given.partition, given.base_offset, given.count) for given in each.ranges])
        for each in stored
    ]


def moved_by(asked: OffsetsRequest) -> Moved:
    if asked.instance is None and asked.generation is not None:
        raise Refusal(422, "a generation is that of an instance: name it, too")
    offsets = {partition: _commitment(each) for partition, each in each_once(asked.offsets).items()}
    return Moved(asked.group, offsets, asked.instance, asked.generation)


def _commitment(entry: CommitEntry) -> Commitment:
    where = TopicPartition(entry.topic, entry.partition)
    if isinstance(entry.next_offset, int) == isinstance(entry.offset, int):
        raise Refusal(422, f"{where.topic}-{where.partition} needs either an offset or a next_offset")
    if isinstance(entry.next_offset, int):
        return Commitment(entry.next_offset, entry.metadata or "")
    return Commitment(entry.offset + 1 if isinstance(entry.offset, int) else 0, entry.metadata or "")
