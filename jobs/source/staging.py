"""What a task of a write does with its rows, and what the driver decides of all tasks.

A task *stages*: it hands its rows to the server, and answers with what became of them. The driver *decides* when all
tasks have staged, or gives up when one could not.

A batch that has a number is stored once. All who work on it, who do not know of each other, join one transaction: that
of the sink's name and the batch's number. Each run of a task stages into a part of its own, and the driver's commit
names the parts of those runs that Spark counts: whatever others have sent, who were killed, or too slow, or an earlier
driver's, is forgotten. The server keeps the number with the commit, so whoever comes later with that batch, however it
is cut by then, is told so and stores nothing.

A transaction that somebody else has begun is theirs: the runs that count are committed with whatever they have added,
and what becomes of it where a task or the commit fails is for them to say.

A batch without a number is stored as it is staged: there is nothing left to decide, and what Spark runs again is stored
again.
"""

from __future__ import annotations

import logging
import time
import uuid
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, suppress
from itertools import chain
from typing import Final, NamedTuple

import pyarrow as pa
from pyspark.sql.datasource import WriterCommitMessage

from delta_log.transactions.transaction_id import parse_id
from jobs.source.errors import InvalidOption, NotDecided, NotReadable, SourceError
from jobs.source.options import WriteOptions
from jobs.source.server import DECIDED, Numbered, Part, Server
from jobs.source.sink_columns import cut_requests

_LOG: Final = logging.getLogger(__name__)


class Version(NamedTuple):
    """A batch of a sink, which is stored once."""

    sink: str
    number: int


class Staged(WriterCommitMessage):
    """How many rows one task has staged in which topic, and where, unless they are stored.

    `decided` is a batch that was stored before.
    """

    def __init__(
        self, rows: dict[str, int], of: Version | None = None, part: Part | None = None, *, decided: bool = False
    ) -> None:
        self.rows, self.of, self.part, self.decided = rows, of, part, decided


class Producer:
    """Numbers requests to one server, topic by topic, so that one that must be repeated is stored once."""

    def __init__(self) -> None:
        self.id = f"spark-{uuid.uuid4().hex}"
        self.used = time.monotonic()
        self._next: Counter[str] = Counter()

    def number(self, topic: str, rows: int) -> Numbered:
        self.used = time.monotonic()
        self._next[topic] += rows
        return Numbered(self.id, self._next[topic] - rows)


#: By the server. A server remembers every producer for a day, and Spark runs many short tasks in one process, one after
#: the other: were each of them a producer, a stream would be a new one many times a minute.
_PRODUCERS: Final[dict[str, Producer]] = {}
_IDLE_S: Final = 600.0

#: Another transaction was opened behind this one, or this one is being committed: by another driver, with its parts.
_OVERTAKEN: Final = frozenset({40914, 40917})
_TOO_LARGE: Final = 41301
_RAISE: Final = "raise the server's transaction.max.bytes"
_LARGE: Final = f"{_RAISE}, or write with deliveryGuarantee=at-least-once"
#: What cannot be taken back ends by itself: a query that fails need not wait long for it.
_ABORT_MS: Final = 5_000


def stage(batches: Iterable[pa.RecordBatch], options: WriteOptions, of: Version | None = None) -> Staged:
    """All rows of one run of a task."""
    with closing(Server(options.server, options.patience_ms)) as server:
        if options.transaction is not None:
            return _stage_given(batches, options, server, options.transaction)
        if of is None:
            return _store(batches, options, server)
        return _stage_once(iter(batches), options, server, of)


def _store(batches: Iterable[pa.RecordBatch], options: WriteOptions, server: Server) -> Staged:
    producer = _PRODUCERS.pop(options.server, None)
    if producer is None or time.monotonic() - producer.used > _IDLE_S:
        producer = Producer()
    rows: Counter[str] = Counter()
    for topic, request in _requests(batches, options):
        server.append(topic, request, producer.number(topic, request.num_rows))
        rows[topic] += request.num_rows
    # Who failed does not know which of its numbers were taken, and is never heard of again.
    _PRODUCERS[options.server] = producer
    return Staged(dict(rows))


def _stage_once(batches: Iterator[pa.RecordBatch], options: WriteOptions, server: Server, of: Version) -> Staged:
    """A run without rows joins nothing."""
    requests = _requests(batches, options)
    first = next(requests, None)
    if first is None:
        return Staged({}, of)
    name, part = uuid.uuid4().hex, None
    try:
        part = server.begin(of.sink, of.number, name)
        if part is None:
            return _leave_out(batches, of)
        return Staged(_append(chain([first], requests), server, of.sink, part), of, part)
    except NotReadable as refused:
        if refused.code in _OVERTAKEN and server.begin(of.sink, of.number, name) is None:
            return _leave_out(batches, of)
        if refused.code == _TOO_LARGE and part is not None:
            # With what killed runs and drivers have left in it, which nobody else takes away.
            with suppress(SourceError):
                server.abort(part.transaction)
            raise NotDecided(f"{refused}; have batches be smaller (maxOffsetsPerTrigger), or {_LARGE}") from refused
        raise


def _stage_given(batches: Iterable[pa.RecordBatch], options: WriteOptions, server: Server, transaction: str) -> Staged:
    key = parse_id(transaction)
    if key is None:
        raise InvalidOption("transaction", f"{transaction!r} is not the id of one")
    part = Part(transaction, key.epoch, uuid.uuid4().hex)
    try:
        rows = _append(_requests(batches, options), server, key.transactional_id, part)
    except NotReadable as refused:
        if refused.code != _TOO_LARGE:
            raise
        raise NotDecided(f"{refused}; have fewer rows in a transaction, or {_RAISE}") from refused
    return Staged(rows, None, part if rows else None)


def _requests(batches: Iterable[pa.RecordBatch], options: WriteOptions) -> Iterator[tuple[str, pa.RecordBatch]]:
    return (each for batch in batches for each in cut_requests(batch, options.topic))


def _append(
    requests: Iterable[tuple[str, pa.RecordBatch]], server: Server, transactional_id: str, part: Part
) -> dict[str, int]:
    """Answers how many rows each topic was sent, by which they are numbered."""
    rows: Counter[str] = Counter()
    for topic, request in requests:
        server.append(topic, request, Numbered(transactional_id, rows[topic], part.epoch), part)
        rows[topic] += request.num_rows
    return dict(rows)


def _leave_out(batches: Iterator[pa.RecordBatch], of: Version) -> Staged:
    for _ in batches:  # Spark goes on handing them out, and wants to be rid of them
        pass
    return Staged({}, of, decided=True)


def decide(staged: Sequence[Staged | None], options: WriteOptions, number: int | None = None) -> None:
    """Every task has staged what it had: it is stored already, or is stored now. `number` is the driver's."""
    found = [each for each in staged if each is not None]
    odd = [each.of for each in found if each.of is not None and number is not None and each.of.number != number]
    if odd:
        raise NotDecided(f"the tasks of batch {number} take it for batch {odd[0].number}; nothing of it is stored")
    decided = [each.of for each in found if each.decided]
    if decided and decided[0] is not None:
        _LOG.warning("batch %s is left out: %r has stored it, or a later one", decided[0].number, decided[0].sink)
        return
    parts = [each.part for each in found if each.part is not None]
    if options.transaction is not None:
        with closing(Server(options.server, options.patience_ms)) as server:
            server.commit(options.transaction, [part.stage for part in parts])
    elif parts:
        _commit(parts, options)
    _LOG.info("stored %s", _sum(staged))


def _commit(parts: Sequence[Part], options: WriteOptions) -> None:
    if len({part.transaction for part in parts}) > 1:
        raise NotDecided(
            "the server forgot a part of the batch, as it was restarted, or it took too long; nothing is stored"
        )
    with closing(Server(options.server, options.patience_ms)) as server:
        try:
            server.commit(parts[0].transaction, [part.stage for part in parts])
        except NotReadable as refused:
            if refused.code != DECIDED:
                raise
            _LOG.warning("a batch is left out: %s", refused)


def give_up(staged: Sequence[Staged | None], options: WriteOptions) -> None:
    """Some task has failed. What others have stored cannot be taken back; what they have staged is forgotten."""
    if options.transaction is not None:
        return
    found = [each for each in staged if each is not None]
    try:
        with closing(Server(options.server, min(_ABORT_MS, options.patience_ms))) as server:
            for transaction in {each.part.transaction for each in found if each.part is not None}:
                server.abort(transaction)
    except SourceError as error:
        _LOG.warning("the write failed, and what it staged is kept until its time is over: %s", error)
    stored = _sum([each for each in found if each.of is None])
    if stored:
        _LOG.warning("the write failed, and stays stored in part: %s", stored)


def _sum(staged: Sequence[Staged | None]) -> dict[str, int]:
    rows: Counter[str] = Counter()
    for each in staged:
        rows.update(each.rows if each is not None else {})
    return dict(rows)
