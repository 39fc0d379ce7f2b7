"""Staging of rows by the tasks of a write, and the decision of the driver on all tasks.

A task *stages*: it sends its rows to the server, and returns the outcome. The driver *decides* when all tasks have
staged, or gives up when one could not.

A batch with a number is stored exactly once. All its tasks, independently of each other, join one transaction: that of
the sink's name and the batch's number. Each run of a task stages into a part of its own, and the driver's commit names
the parts of the runs that Spark counts: parts of others, which were killed, too slow, or of an earlier driver, are
dropped. The server keeps the number with the commit, so that a later repeat of the batch, even if it is cut in another
way, is recognized and stores nothing.

A transaction begun by the caller remains the caller's: the counted runs are committed with everything else in it, and
the caller decides on it if a task or the commit fails.

A batch without a number is stored as it is staged: there is nothing left to decide, and rows that Spark writes again
are stored again.
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
    """A batch of a sink, which is stored exactly once."""

    sink: str
    number: int


class Staged(WriterCommitMessage):
    """Outcome of one task: number of rows by topic, and the part in which they are staged, unless they are stored.

    `decided`: the batch was stored before.
    """

    def __init__(
        self, rows: dict[str, int], of: Version | None = None, part: Part | None = None, *, decided: bool = False
    ) -> None:
        self.rows, self.of, self.part, self.decided = rows, of, part, decided


class Producer:
    """Numbers requests to one server, by topic, so that a repeated one is stored once."""

    def __init__(self) -> None:
        self.id = f"spark-{uuid.uuid4().hex}"
        self.used = time.monotonic()
        self._next: Counter[str] = Counter()

    def number(self, topic: str, rows: int) -> Numbered:
        self.used = time.monotonic()
        self._next[topic] += rows
        return Numbered(self.id, self._next[topic] - rows)


#: Producers by server, reused by the many short tasks that Spark runs in one process: a server remembers each producer
#: for a day, and a stream would otherwise create many in a minute.
_PRODUCERS: Final[dict[str, Producer]] = {}
_IDLE_S: Final = 600.0

#: Refusals if another transaction was opened after this one, or another driver commits this one with its own parts.
_OVERTAKEN: Final = frozenset({40914, 40917})
_TOO_LARGE: Final = 41301
_RAISE: Final = "raise the server's transaction.max.bytes"
_LARGE: Final = f"{_RAISE}, or write with deliveryGuarantee=at-least-once"
#: Limit of the abort after a failure: an open transaction times out anyway, so that a failed query need not wait.
_ABORT_MS: Final = 5_000


def stage(batches: Iterable[pa.RecordBatch], options: WriteOptions, of: Version | None = None) -> Staged:
    """Stage all rows of one run of a task."""
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
    # After a failure the used numbers are unknown, so that producer is not reused.
    _PRODUCERS[options.server] = producer
    return Staged(dict(rows))


def _stage_once(batches: Iterator[pa.RecordBatch], options: WriteOptions, server: Server, of: Version) -> Staged:
    """Stage into the transaction of a version; a run without rows joins none."""
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
            # Aborts also what killed runs and drivers left in it, which nothing else would remove.
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
    """Send rows, numbered by topic; returns the number of rows by topic."""
    rows: Counter[str] = Counter()
    for topic, request in requests:
        server.append(topic, request, Numbered(transactional_id, rows[topic], part.epoch), part)
        rows[topic] += request.num_rows
    return dict(rows)


def _leave_out(batches: Iterator[pa.RecordBatch], of: Version) -> Staged:
    for _ in batches:  # Spark requires its input to be consumed
        pass
    return Staged({}, of, decided=True)


def decide(staged: Sequence[Staged | None], options: WriteOptions, number: int | None = None) -> None:
    """Commit after all tasks have staged, unless the rows are stored already. `number`: the batch by the driver."""
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
    """Give up, as a task has failed: staged rows are dropped; rows stored already cannot be taken back."""
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
