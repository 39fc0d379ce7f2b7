"""Stores records that a function gives up as dead letters of the group, in a transaction with its offsets or without.

    letters.store(places, transaction, counts)     as a part of it; without one they are durable when it returns

A letter is the original record, read again from the log, not what the function made of it. Records removed by retention
or compaction meanwhile are left out, and so are those of the dead-letter topic itself. It must not know what is done
with the other rows.
"""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Iterable, Iterator

import pyarrow as pa
import pyarrow.compute as pc

from delta_log.transactions.transaction_id import parse_id
from jobs.foundation.result import Unfinished
from jobs.groups.dead_letter_topic import LetterTopic
from jobs.groups.dead_letters import GivenUp, Letter, Origin, stretches
from jobs.groups.group_client import Groups
from jobs.source.columns import RECORD
from jobs.source.positions import TopicPartition
from jobs.source.rest_client import OutOfRange
from jobs.source.server import Numbered, Part, Server

__all__ = ["Letters"]


class Letters:
    """Dead letters of one group, which go `to` a topic."""

    def __init__(self, groups: Groups, server: Server, *, to: str, group: str) -> None:
        self.to = to
        self._server = server
        self._topic = LetterTopic(groups, server, to=to, group=group)
        self._alone = Numbered(f"consume-{uuid.uuid4().hex}", 0)

    def store(self, given_up: Iterable[GivenUp], transaction: str | None, counts: dict[str, int]) -> None:
        """Store letters of records given in order; adds their number by topic to `counts`."""
        numbered, part = _within(transaction) if transaction is not None else (self._alone, None)
        for topic, some in itertools.groupby(stretches(given_up), key=lambda some: some[0].of.topic):
            counts.setdefault(topic, 0)
            numbered, _ = self._topic.send(self._read(some, counts), topic, numbered, part)
        if transaction is None:
            self._alone = numbered

    def _read(self, some: Iterable[list[GivenUp]], counts: dict[str, int]) -> Iterator[Letter]:
        for stretch in some:
            of = stretch[0].of
            counts[of.topic] += len(stretch)
            if of.topic != self.to:
                yield from self._letters(of, {each.offset: each for each in stretch})

    def _letters(self, of: TopicPartition, given_up: dict[int, GivenUp]) -> Iterator[Letter]:
        position, end = min(given_up), max(given_up) + 1
        while position < end:
            try:
                for batch in self._server.read(of.topic, of.partition, position, end, RECORD):
                    position = int(batch.column(0)[-1].as_py()) + 1
                    yield from _chosen(batch, of.partition, given_up)
                return
            except OutOfRange as error:
                if error.there.start <= position:
                    return
                position = error.there.start


def _within(transaction: str) -> tuple[Numbered, Part]:
    key = parse_id(transaction)
    if key is None:
        raise Unfinished(f"{transaction!r} is not the id of a transaction")
    return Numbered(key.transactional_id, 0, key.epoch), Part(transaction, key.epoch)


def _chosen(batch: pa.RecordBatch, partition: int, given_up: dict[int, GivenUp]) -> Iterator[Letter]:
    rows = batch.filter(pc.is_in(batch.column("offset"), value_set=pa.array(given_up, pa.int64())))
    stamps = pc.divide(rows.column("timestamp").cast(pa.int64()), pa.scalar(1000)).to_pylist()
    columns = [rows.column(name).to_pylist() for name in ("offset", "key", "value", "headers")]
    for stamp, offset, key, value, headers in zip(stamps, *columns, strict=True):
        said = [(each["key"], each["value"]) for each in headers or ()]
        why = given_up[offset]
        yield Letter(Origin(partition, offset), stamp, key, value, said, why.reason, attempts=why.attempts)
