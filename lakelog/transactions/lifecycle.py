"""Lifecycle of a transaction, from begin to end: its records, their numbers and results. Pure.

Records wait in one batch for each topic. A batch is one request, and one request is in flight at a time; the numbers of
a topic begin at 0 in each transaction. When a request is refused or stays unanswered, the whole transaction has failed:
nothing more is sent, and it can only be aborted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Generic, NamedTuple, TypeVar

from lakelog.consume.shapes import GroupOffsets
from lakelog.foundation.errors import (
    Closed,
    IllegalState,
    LakelogError,
    NotAvailable,
    OutcomeUnknown,
    TransactionAborted,
)
from lakelog.foundation.names import check_topic
from lakelog.produce.batch import Batch, Payload, Place, Stamp
from lakelog.produce.outbox import MOST_RECORDS
from lakelog.produce.rows import Row
from lakelog.produce.settings import ProducerSettings
from lakelog.transactions.requests import Begun, Request, TransactionQuestions, Unfit, place_records
from lakelog.transport.retry import Asking

B = TypeVar("B", bound=Batch)


class _Kept(NamedTuple):
    """A batch that the server has; `partitions` are those of its records, or None if they are unknown."""

    batch: Batch
    partitions: list[int] | None


class TransactionLifecycle(Generic[B]):
    """State of one transaction. `new_batch` makes the driver's kind of batch from a topic and a number.

    `failed`: the error that prevents a commit; `deciding`: the commit was requested; `over`: it has ended.
    """

    def __init__(
        self,
        begun: Begun,
        settings: ProducerSettings,
        asks: TransactionQuestions,
        new_batch: Callable[[str, int], B],
    ) -> None:
        self.begun = begun
        self.failed: LakelogError | None = None
        self.deciding = self.over = False
        self._asks = asks
        self._new_batch = new_batch
        self._batch_size = min(settings.batch_size, settings.max_request_size)
        self._memory = settings.buffer_memory
        self._waiting: dict[str, B] = {}
        self._batches: list[B] = []
        self._kept: list[_Kept] = []
        self._next: dict[str, int] = {}
        self._held = 0
        self._bad: dict[int, dict[int, LakelogError]] = {}

    def check(self) -> None:
        """Raise an error if no records can be added."""
        if self.failed is not None:
            raise self.failed
        if self.over or self.deciding:
            raise IllegalState("the transaction is over")

    def add(self, topic: str, row: Row, size: int) -> B:
        """Append a record; returns its batch, in which it is the last."""
        self.check()
        batch = self._waiting.get(topic)
        if batch is None:
            check_topic(topic)
            batch = self._waiting[topic] = self._new_batch(topic, len(self._batches))
            self._batches.append(batch)
        batch.rows.append(row)
        batch.size += size
        self._held += size
        return batch

    def must_go_before(self, topic: str, size: int) -> Sequence[str]:
        """Topics whose batches must be sent before a record of this size fits."""
        batch = self._waiting.get(topic)
        if self._held and self._held + size > self._memory:
            return tuple(self._waiting)
        if batch is not None and (batch.size + size > self._batch_size or len(batch.rows) >= MOST_RECORDS):
            return (topic,)
        return ()

    def send(self, topics: Iterable[str] | None = None) -> Asking[None]:
        """Send the batches of these topics, or all."""
        self.check()
        for topic in tuple(self._waiting) if topics is None else topics:
            yield from self._send(self._waiting[topic])

    def move_offsets(self, moved: GroupOffsets) -> Asking[None]:
        self.check()
        try:
            yield from self._asks.move_offsets(self.begun.id, moved)
        except LakelogError as error:
            self.failed = error
            raise

    def commit(self) -> Asking[list[list[Place]]]:
        """Commit; returns the places of the records of each batch."""
        yield from self.send()
        self.deciding = True
        stored = yield from self._asks.commit(self.begun.id)
        partitions = [each.partitions for each in self._kept]
        return place_records(partitions, [each.batch.left for each in self._kept], stored)

    def abort(self) -> Asking[None]:
        return self._asks.abort(self.begun.id)

    def break_off(self, why: BaseException) -> None:
        """Mark as failed: a request was interrupted before its answer."""
        self.failed = self.failed or self.reason_of(why)

    def reason_of(self, why: BaseException) -> LakelogError:
        """Error for the records when this exception ends the transaction."""
        if self.deciding:
            return OutcomeUnknown(f"committing transaction {self.begun.id}", repr(why))
        if isinstance(why, Closed):
            return why
        return TransactionAborted(f"transaction {self.begun.id} was aborted: {why!r}")

    def stored(self, places: Sequence[Sequence[Place]]) -> list[B]:
        """Settle every batch after a commit."""
        for kept, its in zip(self._kept, places, strict=True):
            kept.batch.store(range(len(its)), its)
        return self._settle()

    def lost(self, error: LakelogError) -> list[B]:
        """Settle every batch with errors: not committed, or not known to be."""
        blamed = any(self._bad.values())
        others = TransactionAborted(f"the transaction was aborted: {error}", said=error.said) if blamed else error
        for batch in self._batches:
            batch.left = batch.left or len(batch.rows)
            batch.fail(range(batch.left), others)
            for index, why in self._bad.get(batch.number, {}).items():
                batch.fail((index,), why)
        return self._settle()

    def _settle(self) -> list[B]:
        self.over = True
        for batch in self._batches:
            batch.settle()
        settled, self._batches, self._waiting = self._batches, [], {}
        return settled

    def _send(self, batch: B) -> Asking[None]:
        sequence, count = self._next.get(batch.topic, 0), len(batch.rows)
        stamp = Stamp(self.begun.producer_id, self.begun.epoch, sequence)
        try:
            request = Request(batch.topic, Payload(batch.rows), stamp)
            partitions = yield from self._asks.put(self.begun.id, request)
        except Unfit as unfit:
            self._bad[batch.number] = unfit.bad
            self.failed = next(iter(unfit.bad.values()), unfit.error)
        except OutcomeUnknown as unknown:  # certainly not stored: nothing is until the commit
            self.failed = NotAvailable(f"the transaction is given up: {unknown}", said=unknown.said)
        except LakelogError as error:
            self.failed = error
        else:
            batch.begin()
            batch.put_away()
            self._next[batch.topic] = sequence + count
            self._held -= batch.size
            self._kept.append(_Kept(batch, partitions))
            del self._waiting[batch.topic]
            return
        raise self.failed
