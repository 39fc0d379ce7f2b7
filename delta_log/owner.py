"""Appending to a log: from records to a request, and to where it is stored. For threads and for tasks."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Final

import pyarrow as pa

from delta_log.append.append_unit import Prepared
from delta_log.append.async_append import AsyncAppender
from delta_log.append.in_order import InOrderAppender
from delta_log.append.init_producer import bump_epoch, check_transactional_id, fresh_identity
from delta_log.model.errors import InvalidRecord, NotOwner, Overloaded, ProducerError
from delta_log.model.types import Appended, ProducerIdentity, ProducerStamp, Record
from delta_log.reader import Reading
from delta_log.records.idempotence import Repeat
from delta_log.records.prepare import prepare_arrow, prepare_records
from delta_log.records.prepare_single import prepare_plain_record
from delta_log.records.request import LARGE, Request
from delta_log.records.validation import Rules
from delta_log.startup.open import Running, Settings, open_producer_table, take_ownership
from delta_log.topics.topic_state import TopicState

_ROOM_EVERY_S: Final = 0.01
#: Larger requests of an event loop are checked and split by a thread.
_PREPARED_IN_LOOP: Final = 2000


class Appending(Reading):
    """The appends of a root's owner, on top of reading."""

    def __init__(self, running: Running, settings: Settings, clock_ms: Callable[[], int]) -> None:
        super().__init__(running.root, running.catalog, running.journal)
        self._running = running
        self._settings = settings
        self._clock_ms = clock_ms
        self._loops = AsyncAppender(running.writer)
        self._door = InOrderAppender(running.writer, self._loops, settings.producer_wait_s)
        #: Many threads with large requests would starve the writers of the tables: only so many prepare at once.
        self._preparing = threading.BoundedSemaphore(max(2, os.cpu_count() or 1))

    def append(self, topic: str, records: Sequence[Record], *, producer: ProducerStamp | None = None) -> Appended:
        """Store all of the records or none. Returns when they are durable."""
        if isinstance(records, Record) or len(records) < LARGE:
            live, request = self._prepare(topic, records, producer)
        else:
            with self._preparing:
                live, request = self._prepare(topic, records, producer)
        self._wait_for_room(live, request.size)
        return self._door.append(live, request)

    def append_arrow(
        self, topic: str, table: pa.Table | pa.RecordBatch, *, producer: ProducerStamp | None = None
    ) -> Appended:
        """Append rows with the columns key and value, and optionally partition, timestamp and headers."""
        with self._preparing:
            live, request = self._prepare(topic, table, producer)
        self._wait_for_room(live, request.size)
        return self._door.append(live, request)

    async def append_async(
        self, topic: str, records: Sequence[Record], *, producer: ProducerStamp | None = None
    ) -> Appended:
        """Append from a task: a thread writes and waits for the disk.

        Refused at once if the tables are behind, because an event loop must not block.
        """
        return await (await self.accept_async(topic, records, producer=producer))

    async def append_arrow_async(
        self, topic: str, table: pa.Table | pa.RecordBatch, *, producer: ProducerStamp | None = None
    ) -> Appended:
        return await (await self.accept_async(topic, table, producer=producer))

    async def accept_async(
        self,
        topic: str,
        records: Sequence[Record] | pa.Table | pa.RecordBatch,
        *,
        producer: ProducerStamp | None = None,
    ) -> Coroutine[Any, Any, Appended]:
        """Check a request; the returned coroutine stores it when awaited."""
        await self._own_off_the_loop(topic, producer)
        if isinstance(records, Record) or len(records) < _PREPARED_IN_LOOP:
            live, request = self._prepare(topic, records, producer)
        else:
            live, request = await asyncio.to_thread(self._prepare, topic, records, producer)
        self._running.writer.check_room(live, request.size)
        return self._door.append_async(live, request)

    def queue_up(
        self,
        topic: str,
        records: Sequence[Record] | pa.Table | pa.RecordBatch,
        *,
        producer: ProducerStamp | None = None,
    ) -> asyncio.Future[Appended] | None:
        """Append like `append_async`, in one step, for a loop with many requests: only the answer is awaited.

        None if the loop would have to wait first: then nothing was done, and the caller must use `append_async`.
        """
        known = self._running.catalog.opened(topic)
        if known is None or not known.owned or type(records) is Record or len(records) >= _PREPARED_IN_LOOP:
            return None
        if producer is not None and not self._remembers_producers():
            return None
        request = self._make_request(self._writable(topic, None), records, producer)
        self._running.writer.check_room(known, request.size)
        return self._door.queue_up(known, request)

    def prepare(self, topic: str, records: Sequence[Record] | pa.Table | pa.RecordBatch) -> Prepared:
        """Prepare records for one unit with others: see `Ledger.append`. Nothing is stored."""
        with self._preparing:
            return Prepared(*self._prepare(topic, records, None))

    async def prepare_async(self, topic: str, records: Sequence[Record] | pa.Table | pa.RecordBatch) -> Prepared:
        """Prepare records from a task."""
        await self._own_off_the_loop(topic, None)
        if len(records) < _PREPARED_IN_LOOP:
            return Prepared(*self._prepare(topic, records, None))
        return await asyncio.to_thread(self.prepare, topic, records)

    def init_producer(self, transactional_id: str | None = None) -> ProducerIdentity:
        """The identity of an idempotent producer: a fresh id, or for a transactional id its next epoch.

        The next epoch fences all earlier producers of the transactional id for good, once this returns.
        """
        self._check_writable()
        if transactional_id is None:
            return fresh_identity()
        check_transactional_id(transactional_id)
        self._running.writer.room.check_records()
        self._wait_for_room(open_producer_table(self._running), 0)
        return bump_epoch(self._running.writer, transactional_id, self._clock_ms)

    async def init_producer_async(self, transactional_id: str | None = None) -> ProducerIdentity:
        """Run `init_producer` from a task: a thread waits for the disk."""
        return await asyncio.to_thread(self.init_producer, transactional_id)

    def _prepare_numbered(
        self, topic: str, records: Sequence[Record] | pa.Table, number: Callable[[TopicState], ProducerStamp | None]
    ) -> tuple[TopicState, Request]:
        """Prepare records for a transaction, numbered there. The transaction itself detects repeats."""
        live = self._writable(topic, None)
        return live, self._make_request(live, records, number(live), in_transaction=True)

    def _prepare(
        self, topic: str, records: Sequence[Record] | pa.Table | pa.RecordBatch, producer: ProducerStamp | None
    ) -> tuple[TopicState, Request]:
        live = self._writable(topic, producer)
        return live, self._make_request(live, records, producer)

    def _make_request(
        self,
        live: TopicState,
        records: Sequence[Record] | pa.Table | pa.RecordBatch,
        producer: ProducerStamp | None,
        *,
        in_transaction: bool = False,
    ) -> Request:
        if isinstance(records, Record):
            raise InvalidRecord(0, "a request is a sequence of records, not one record")
        if isinstance(records, pa.RecordBatch):
            records = pa.Table.from_batches([records])
        try:
            request = self._make_by(live.rules, live, records, producer)
        except InvalidRecord as refusal:
            if in_transaction:
                return self._make_relaxed(live, records, producer, refusal)
            if producer is None:
                raise
            return self._make_repeat(live, records, producer, refusal)
        live.next_null += request.nulls
        return request

    def _make_by(
        self, rules: Rules, live: TopicState, records: Sequence[Record] | pa.Table, producer: ProducerStamp | None
    ) -> Request:
        first, now_ms = live.next_null, self._clock_ms()
        if isinstance(records, pa.Table):
            return prepare_arrow(rules, records, first_null=first, now_ms=now_ms, stamp=producer)
        if len(records) == 1:
            request = prepare_plain_record(rules, records[0], first_null=first, now_ms=now_ms, stamp=producer)
            if request is not None:
                return request
        return prepare_records(rules, records, first_null=first, now_ms=now_ms, stamp=producer)

    def _make_repeat(
        self, live: TopicState, records: Sequence[Record] | pa.Table, producer: ProducerStamp, refusal: InvalidRecord
    ) -> Request:
        """Accept a repeat of a stored request, even if the topic's rules have changed since and would refuse it."""
        request = self._make_relaxed(live, records, producer, refusal)
        try:
            decision = self._running.writer.producers.decide(live.id, producer, request.count, request.digest)
        except ProducerError:
            raise refusal from None
        if not isinstance(decision, Repeat):
            raise refusal
        return request

    def _make_relaxed(
        self,
        live: TopicState,
        records: Sequence[Record] | pa.Table,
        producer: ProducerStamp | None,
        refusal: InvalidRecord,
    ) -> Request:
        """Make a request that is refused unless it is a repeat."""
        try:
            request = self._make_by(live.rules.relaxed(), live, records, producer)
        except InvalidRecord:
            raise refusal from None
        request.refusal = refusal
        return request

    def _writable(self, topic: str, producer: ProducerStamp | None) -> TopicState:
        """The topic, with ownership of its table, and of the producers' table if one is needed."""
        self._check_writable()
        live = self._running.catalog.live(topic)
        if self._running.writer.room.full:
            self._running.writer.room.check_records()
        if not live.owned:
            take_ownership(self._running, live)
        if producer is not None:
            open_producer_table(self._running)
        return live

    async def _own_off_the_loop(self, topic: str, producer: ProducerStamp | None) -> None:
        """Take ownership in a thread: for the first append to a topic this waits for the disk."""
        known = self._running.catalog.opened(topic)
        remembers = producer is None or self._remembers_producers()
        if known is None or not known.owned or not remembers:
            await asyncio.to_thread(self._writable, topic, producer)

    def _remembers_producers(self) -> bool:
        table = self._running.writer.sequencer.producer_table
        return table is not None and table.owned

    def _wait_for_room(self, live: TopicState, size: int) -> None:
        """Block the thread until the tables have caught up, for at most `max_block_s`."""
        deadline = 0.0
        while True:
            self._check_writable()
            try:
                self._running.writer.check_room(live, size)
                return
            except Overloaded:
                now = time.monotonic()
                deadline = deadline or now + self._settings.max_block_s
                if now >= deadline or live.closed is not None:
                    raise
                time.sleep(_ROOM_EVERY_S)

    def _look(self, live: TopicState) -> None:  # noqa: ARG002 - only a reader uses it
        """Raise if this owner was replaced: its state is stale. Otherwise the background follows others' commits."""
        if isinstance(self._running.writer.fatal, NotOwner):
            raise self._running.writer.fatal

    def _follow(self, live: TopicState) -> None:
        try:
            super()._follow(live)
        except NotOwner as error:
            self._running.writer.close(error)
            raise

    def _check_writable(self) -> None:
        self._check_open()
        if self._running.writer.fatal is not None:
            raise self._running.writer.fatal
