"""Batches of a group's member: the output and the commit of each, in the order of the delivery guarantee.

at-least-once: output, then commit · at-most-once: commit, then output · exactly-once: both in one transaction

Dead letters are stored in one transaction with the commit; with at-most-once after it, as all output. A batch that
fails is done in parts, each of them like a batch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from typing import TYPE_CHECKING, Final, NamedTuple

from delta_log.runtime.syscalls import Probe
from jobs.consume.batch_transactions import Transactions
from jobs.consume.bisect_batch import Rescue
from jobs.consume.bisection import Spans, ends_of, spans_between
from jobs.consume.blame import Raised, blamed, plainly
from jobs.consume.dead_letter_column import find_given_up
from jobs.consume.dead_letter_commit import Letters
from jobs.consume.partial_batch import PartReader
from jobs.consume.pipeline import Made, Pipeline
from jobs.foundation.result import Unfinished
from jobs.groups.dead_letters import GivenUp
from jobs.groups.group_client import Fenced
from jobs.groups.group_member import Member, Share
from jobs.groups.start_offsets import count_offsets, find_progress
from jobs.source.positions import Positions, Range, TopicPartition

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["AT_MOST_ONCE", "EXACTLY_ONCE", "Batches", "Reading"]

AT_MOST_ONCE: Final = "at-most-once"
EXACTLY_ONCE: Final = "exactly-once"

_NO_PARTS: Final = (
    "what depends on several records cannot be made of a part of a batch, so the one that fails is not looked for: "
    "have the function give it up by the column dead_letter"
)

#: Called for each batch with the number of offsets processed by topic, the partitions that could not be committed, and
#: the number of dead letters by topic.
Tell = Callable[[dict[str, int], list[TopicPartition], dict[str, int]], None]


class Reading(NamedTuple):
    """A share, and the positions it is read from."""

    share: Share
    positions: Positions


class Batches:
    """Batches of one share. Fenced is raised if the share was taken away: there is no next batch of it.

    Without `rescued_by`, a batch that fails ends the query.
    """

    def __init__(
        self,
        member: Member,
        transactions: Transactions,
        reading: Reading,
        pipeline: Pipeline,
        letters: Letters,
        tell: Tell,
        probe: Probe,
    ) -> None:
        self._member = member
        self._transactions = transactions
        self._share, self._positions = reading
        self._pipeline = pipeline
        self._letters = letters
        self._tell = tell
        self._at = probe
        self._rescue: tuple[Rescue, PartReader] | None = None
        self._more = 0
        self._begun = False
        self._ends: Positions = {}

    def rescued_by(self, rescue: Rescue, reader: PartReader) -> None:
        self._rescue = rescue, reader

    def work(self, batch: DataFrame, batch_id: int, ends: Positions, delivery: str, query: str | None = None) -> None:
        """Process a batch, in parts if it fails. `query`: name of the state kept from batch to batch, if any."""
        if self._rescue is None:
            with plainly():
                self.do(batch, batch_id, ends, delivery, query)
            return
        rescue, reader = self._rescue
        parts = _Parts(self, reader, batch.sparkSession, batch_id, delivery)
        spans = spans_between(self._positions, ends)
        if rescue.is_waiting:
            rescue.run(spans, parts)
            return
        try:
            self.do(batch, batch_id + self._more, ends, delivery, query)
        except Raised as raised:
            if self._pipeline.remembers:
                raise Unfinished(f"the query failed: {raised}; {_NO_PARTS}") from raised.error
            rescue.run(spans, parts, raised)

    def next_number(self, batch_id: int) -> int:
        """Return a number for a part of a batch; none is used twice."""
        self._more += 1
        return batch_id + self._more

    def do_part(self, records: DataFrame, number: int, ends: Positions, delivery: str) -> None:
        self.do(self._pipeline.of_part(records), number, ends, delivery)

    def do(self, batch: DataFrame, batch_id: int, ends: Positions, delivery: str, query: str | None = None) -> None:
        """Process a batch up to its commit; Raised if its computation fails."""
        self._ends = ends
        progress = find_progress(self._positions, ends)
        letters: dict[str, int] = {}
        if delivery == EXACTLY_ONCE:
            letters = self._store_once(batch, batch_id, progress, query)
        elif delivery == AT_MOST_ONCE:
            # If the commit is refused, nothing is output here: the present owner of the partitions does it.
            self._member.commit(self._share, progress)
            self._at("consume.committed")
            with self._pipeline.made(batch, batch_id) as made:
                self._put(made, None)
                self._letters.store(self._given_up(made), None, letters)
            self._at("consume.put")
        else:
            with self._pipeline.made(batch, batch_id) as made:
                self._put(made, None)
                self._at("consume.put")
                letters = self._commit_with_letters(made, progress)
            self._at("consume.committed")
        self._count(progress, [], letters)

    def probe(self, records: DataFrame, number: int, delivery: str) -> None:
        """Process records without committing; with exactly-once nothing is stored either."""
        with self._pipeline.made(self._pipeline.of_part(records), number) as made:
            if made.rows is not None and delivery == EXACTLY_ONCE:
                _compute(made.rows)
            else:
                self._put(made, None)

    def pass_over(self, ends: Positions) -> None:
        self._commit(ends)
        self._count(ends, [], {})

    def give_up(self, record: GivenUp) -> None:
        progress = {record.of: record.offset + 1}
        letters = self._commit_letters([record], progress)
        self._at("consume.committed")
        self._count(progress, [], letters)

    def _put(self, made: Made, transaction: str | None) -> None:
        if made.rows is not None:
            self._pipeline.put(made.rows, transaction)

    def _given_up(self, made: Made) -> Iterator[GivenUp]:
        if made.giving_up is not None:
            yield from find_given_up(made.giving_up, self._positions, self._ends)

    def _commit_with_letters(self, made: Made, progress: Positions) -> dict[str, int]:
        given_up = self._given_up(made)
        first = next(given_up, None)
        if first is None:
            self._commit(progress)
            return {}
        return self._commit_letters(chain([first], given_up), progress)

    def _commit_letters(self, given_up: Iterable[GivenUp], progress: Positions) -> dict[str, int]:
        try:
            transaction = self._transactions.begin_for(self._share)

            def store(counted: dict[str, int]) -> None:
                self._letters.store(given_up, transaction, counted)
                self._at("consume.lettered")

            return self._decide(transaction, progress, store)
        except Fenced:
            self._count({}, sorted(progress), {})
            raise

    def _store_once(self, batch: DataFrame, batch_id: int, progress: Positions, query: str | None) -> dict[str, int]:
        transaction = self._begin(batch_id, query)
        if transaction is None:
            # The batch is committed; computing it restores the state kept from batch to batch.
            _compute(batch)
            return {}

        def store(counted: dict[str, int]) -> None:
            with self._pipeline.made(batch, batch_id) as made:
                self._letters.store(self._given_up(made), transaction, counted)
                if counted:
                    self._at("consume.lettered")
                self._put(made, transaction)

        counted = self._decide(transaction, progress, store)
        self._at("consume.committed")
        return counted

    def _decide(self, transaction: str, progress: Positions, store: Callable[[dict[str, int]], None]) -> dict[str, int]:
        """Commit the offsets and what `store` adds in one transaction, both or neither."""
        transactions, counted = self._transactions, dict[str, int]()
        self._at("consume.begun")
        transactions.move(transaction, self._share, progress)
        self._at("consume.moved")
        try:
            store(counted)
            transactions.end(transaction)
        except Exception as error:
            if isinstance(error, Fenced) or not transactions.is_committed(transaction):
                raise
        return counted

    def _begin(self, batch_id: int, query: str | None) -> str | None:
        """Begin the transaction; None if committed already: with a checkpoint Spark may repeat a run's last batch."""
        if query is None:
            return self._transactions.begin_for(self._share)
        begin = self._transactions.begin if self._begun else self._transactions.begin_anew
        self._begun = True
        return begin(query, batch_id)

    def _commit(self, progress: Positions) -> None:
        """Commit; if a part of the share was taken away, the rest is committed all the same."""
        try:
            self._member.commit(self._share, progress)
        except Fenced:
            kept = {each: offset for each, offset in progress.items() if each in self._member.still_held(self._share)}
            try:
                self._member.commit(self._share, kept)
            except Fenced:
                kept = {}
            self._count(kept, sorted(progress.keys() - kept.keys()), {})
            raise

    def _count(self, progress: Positions, uncommitted: list[TopicPartition], letters: dict[str, int]) -> None:
        self._tell(count_offsets(self._positions, progress), uncommitted, letters)
        self._positions = {**self._positions, **progress}


class _Parts:
    """Parts of one batch, as `Rescue` uses them."""

    def __init__(self, batches: Batches, reader: PartReader, spark: SparkSession, batch_id: int, delivery: str) -> None:
        self._batches = batches
        self._reader = reader
        self._spark = spark
        self._id = batch_id
        self._delivery = delivery

    def work_on(self, spans: Spans) -> bool:
        batches, records = self._batches, self._reader.read(self._spark, spans)
        if records is None:
            batches.pass_over(ends_of(spans))
            return False
        batches.do_part(records, batches.next_number(self._id), ends_of(spans), self._delivery)
        return True

    def probe(self, of: TopicPartition, there: Range) -> bool:
        first = self._reader.first(of, there)
        records = None if first is None else self._reader.read(self._spark, {of: Range(first, first + 1)})
        if records is None:
            return False
        self._batches.probe(records, self._batches.next_number(self._id), self._delivery)
        return True

    def give_up(self, record: GivenUp) -> None:
        self._batches.give_up(record)


def _compute(frame: DataFrame) -> None:
    with blamed():
        frame.write.format("noop").mode("overwrite").save()
