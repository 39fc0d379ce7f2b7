"""What a task of a write does with its rows, and what the driver decides of all tasks.

A task *stages*: it hands its rows to the server, and answers with what became of them. The driver *decides* when all
tasks have staged, or gives up when one could not. Without transactions what is staged is stored: there is nothing left
to decide, so a task, or a batch, that Spark runs again is stored again. With them, staged rows belong to a
transaction, and the decision is its commit.
"""

from __future__ import annotations

import logging
import time
import uuid
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import closing
from typing import Final

import pyarrow as pa
from pyspark.sql.datasource import WriterCommitMessage

from jobs.source.options import WriteOptions
from jobs.source.server import Numbered, Server
from jobs.source.sink_columns import cut_requests

_LOG: Final = logging.getLogger(__name__)


class Staged(WriterCommitMessage):
    """How many rows one task has staged in which topic."""

    def __init__(self, rows: dict[str, int]) -> None:
        self.rows = rows


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


def stage(batches: Iterable[pa.RecordBatch], options: WriteOptions) -> Staged:
    """All rows of one run of a task."""
    producer = _PRODUCERS.pop(options.server, None)
    if producer is None or time.monotonic() - producer.used > _IDLE_S:
        producer = Producer()
    rows: Counter[str] = Counter()
    with closing(Server(options.server, options.patience_ms)) as server:
        for batch in batches:
            for topic, request in cut_requests(batch, options.topic):
                server.append(topic, request, producer.number(topic, request.num_rows))
                rows[topic] += request.num_rows
    # Who failed does not know which of its numbers were taken, and is never heard of again.
    _PRODUCERS[options.server] = producer
    return Staged(dict(rows))


def decide(staged: Sequence[Staged | None]) -> None:
    """Every task has staged what it had: it is stored already."""
    _LOG.info("stored %s", _sum(staged))


def give_up(staged: Sequence[Staged | None]) -> None:
    """Some task has failed. What others have staged cannot be taken back."""
    found = _sum(staged)
    if found:
        _LOG.warning("the write failed, and stays stored in part: %s", found)


def _sum(staged: Sequence[Staged | None]) -> dict[str, int]:
    rows: Counter[str] = Counter()
    for each in staged:
        rows.update(each.rows if each is not None else {})
    return dict(rows)
