"""The AsyncConsumer: hands out records that tasks fetch, and keeps its place in a group."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from lakelog.consume.arrow import load_arrow, load_pandas, table_of
from lakelog.consume.rebalance_callbacks import Listen, Listener
from lakelog.consume.record_failure import is_failure
from lakelog.consume.requests import Find
from lakelog.consume.settings import ConsumerSettings
from lakelog.consume.shapes import ConsumerRecord, GroupMetadata, GroupOffsets, OnCommit
from lakelog.consume.subscription import (
    Offset,
    Partition,
    read_offset,
    read_offsets,
    read_partitions,
    read_spot,
    read_wanted,
)
from lakelog.consume.tasks import AsyncWork
from lakelog.foundation.errors import Closed
from lakelog.foundation.topic_partition import OffsetAndMetadata, TopicPartition
from lakelog.transport.exchange import AsyncTransport
from lakelog.transport.http import AsyncHttpTransport

if TYPE_CHECKING:
    import pyarrow as pa

#: One connection for each lane's task, and one for the caller.
_CONNECTIONS = 4


class AsyncConsumer:
    """The Consumer for one event loop: the same settings, the same methods. For one task at a time.

    Listeners and callbacks may be coroutine functions.
    """

    def __init__(self, settings: Mapping[str, object], *, transport: AsyncTransport | None = None) -> None:
        chosen = ConsumerSettings.of(settings)
        self._most = chosen.max_poll_records
        self._work = AsyncWork(
            chosen, transport or AsyncHttpTransport(chosen.bootstrap_servers, chosen.client_id, _CONNECTIONS)
        )
        self._calls, self._known = self._work.consumption.calls, self._work.consumption.known

    # --- what to read

    def subscribe(
        self,
        topics: Iterable[str] | str | None = None,
        *,
        pattern: str | re.Pattern[str] | None = None,
        on_assign: Listen | None = None,
        on_revoke: Listen | None = None,
        on_lost: Listen | None = None,
    ) -> None:
        """Read these topics, or all whose whole name matches a pattern, with the group.

        The listeners are called within `poll`, `unsubscribe` and `close`, with a list of partitions: `on_assign` before
        any record of them is returned, `on_revoke` before other members get them, `on_lost` when others have them
        already (without it, `on_revoke`).
        """
        text = pattern.pattern if isinstance(pattern, re.Pattern) else pattern
        wanted, listener = read_wanted(topics, text), Listener(on_assign, on_revoke, on_lost)
        with self._work.using() as consumption:
            self._work.change(lambda now: consumption.calls.subscribe(wanted, listener, now))

    def assign(self, partitions: Iterable[Partition]) -> None:
        """Read these partitions, whether or not other members read them."""
        chosen = read_partitions(partitions)
        with self._work.using() as consumption:
            self._work.change(lambda now: consumption.calls.assign(chosen, now))

    async def unsubscribe(self, *, timeout: float | None = None) -> None:
        """Commit, leave the group, and read nothing."""
        with self._work.using() as consumption:
            await self._work.call(consumption.calls.unsubscribe(timeout))

    def subscription(self) -> frozenset[str]:
        """Subscribed topics; with a pattern, those of the assigned partitions."""
        with self._work.using() as consumption:
            return self._work.change(lambda _: consumption.subscription)

    def assignment(self) -> frozenset[TopicPartition]:
        """Partitions that are assigned now."""
        with self._work.using() as consumption:
            return self._work.change(lambda _: consumption.assignment)

    # --- reading

    async def poll(self, timeout: float | None = None, *, max_records: int | None = None) -> list[ConsumerRecord]:
        """Return up to `max.poll.records` records, as soon as there are any; none after `timeout` seconds."""
        with self._work.using() as consumption:
            consumption.fetching.arrow = False
            return await self._work.call(consumption.calls.poll_rows(timeout, max_records or self._most))

    async def poll_arrow(self, timeout: float | None = None, *, max_records: int | None = None) -> pa.Table:
        """Return all records that have arrived, as stored, as a table; it may be empty. Needs pyarrow."""
        load_arrow()
        with self._work.using() as consumption:
            consumption.fetching.arrow = True
            return table_of(await self._work.call(consumption.calls.poll_stretches(timeout, max_records)))

    async def poll_pandas(self, timeout: float | None = None, *, max_records: int | None = None) -> Any:
        """Like `poll_arrow`, as a pandas.DataFrame. Needs pandas and pyarrow."""
        load_pandas()
        return (await self.poll_arrow(timeout, max_records=max_records)).to_pandas()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> ConsumerRecord:
        """Wait for the next record without a timeout; `close` ends the iteration."""
        calls = self._calls
        while True:
            lent, used = calls.lent, calls.lent_used
            if used < len(lent) and not self._known.woken:
                calls.lent_used = used + 1
                return lent[used]
            try:
                with self._work.using() as consumption:
                    consumption.fetching.arrow = False
                    await self._work.call(calls.lend(self._most))
            except Closed:
                if self._work.closing:
                    raise StopAsyncIteration from None
                raise

    # --- where to read

    def seek(self, partition: Partition, offset: int) -> None:
        """Continue at an offset; outside the log, `auto.offset.reset` decides."""
        (chosen,), wanted = read_partitions([partition]), read_offset(offset)
        with self._work.using() as consumption:
            self._work.change(lambda _: consumption.calls.seek({chosen: wanted}))

    async def seek_to_beginning(
        self, partitions: Iterable[Partition] | None = None, *, timeout: float | None = None
    ) -> None:
        """Seek to the first record that exists now, in the given partitions, or in all that are assigned."""
        await self._seek(partitions, lambda asks, chosen: asks.offsets(chosen, "beginning_offset", timeout))

    async def seek_to_end(self, partitions: Iterable[Partition] | None = None, *, timeout: float | None = None) -> None:
        """Seek behind the last record that exists now, in the given partitions, or in all that are assigned."""
        await self._seek(partitions, lambda asks, chosen: asks.offsets(chosen, "end_offset", timeout))

    async def seek_to_time(
        self, timestamp: int, partitions: Iterable[Partition] | None = None, *, timeout: float | None = None
    ) -> None:
        """Seek to the first record at or after a time, in milliseconds since 1970, or to the end if there is none."""
        await self._seek(partitions, lambda asks, chosen: asks.offsets_at(timestamp, chosen, timeout))

    async def position(self, partition: Partition, *, timeout: float | None = None) -> int | None:
        """The next offset to be handed out; None if nothing was read yet, and nothing is committed."""
        (chosen,) = read_partitions([partition])
        with self._work.using() as consumption:
            held = self._work.change(lambda _: consumption.calls.held_at(chosen))
            return await self._work.ask(consumption.asks.position(held, timeout))

    async def lag(self, *, timeout: float | None = None) -> dict[TopicPartition, int | None]:
        """Number of records behind the position, for each assigned partition."""
        with self._work.using() as consumption:
            held = self._work.change(lambda _: [consumption.calls.held_at(each) for each in consumption.assignment])
            return await self._work.ask(consumption.asks.lag(held, timeout))

    def pause(self, partitions: Iterable[Partition]) -> None:
        """Hand out no records of these partitions until `resume`; the membership is kept."""
        self._pause(partitions, paused=True)

    def resume(self, partitions: Iterable[Partition]) -> None:
        self._pause(partitions, paused=False)

    def paused(self) -> frozenset[TopicPartition]:
        with self._work.using() as consumption:
            return self._work.change(lambda _: consumption.paused)

    # --- committing

    async def commit(self, offsets: Mapping[Partition, Offset] | None = None, *, timeout: float | None = None) -> None:
        """Commit the group's next offsets to read: behind the records handed out, or the given ones.

        Raises CommitFailed if they are not stored, as the group went on without this consumer.
        """
        given = read_offsets(offsets)
        with self._work.using() as consumption:
            await self._work.call(consumption.calls.commit(given, timeout))

    def commit_async(self, offsets: Mapping[Partition, Offset] | None = None, callback: OnCommit | None = None) -> None:
        """Commit without waiting. `callback` gets the error or None, and the offsets, within a later call."""
        given = read_offsets(offsets)
        with self._work.using() as consumption:
            self._work.change(lambda now: consumption.calls.commit_later(given, callback, now))

    async def committed(
        self, partitions: Iterable[Partition], *, timeout: float | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """Committed offsets of the group; None for a partition without one."""
        chosen = read_partitions(partitions)
        with self._work.using() as consumption:
            return await self._work.ask(consumption.asks.committed(chosen, timeout))

    async def dead_letter(self, record: ConsumerRecord, reason: str, *, timeout: float | None = None) -> None:
        """Copy a record that cannot be processed to the group's dead letters, and skip it: both, or neither.

        No member gets it any more. Raises CommitFailed if it was not done, as the group went on without this consumer.
        """
        spot = read_spot(record)
        with self._work.using() as consumption:
            member, since = self._work.change(lambda _: consumption.calls.member_of(spot.partition))
            await self._work.ask(consumption.asks.give_up(member, spot, reason, since, timeout))

    # --- the log

    async def beginning_offsets(
        self, partitions: Iterable[Partition], *, timeout: float | None = None
    ) -> dict[TopicPartition, int]:
        """The first offset that each partition still has."""
        chosen = read_partitions(partitions)
        with self._work.using() as consumption:
            return await self._work.ask(consumption.asks.offsets(chosen, "beginning_offset", timeout))

    async def end_offsets(
        self, partitions: Iterable[Partition], *, timeout: float | None = None
    ) -> dict[TopicPartition, int]:
        """The offset that the next record of each partition will get."""
        chosen = read_partitions(partitions)
        with self._work.using() as consumption:
            return await self._work.ask(consumption.asks.offsets(chosen, "end_offset", timeout))

    async def offsets_for_times(
        self, times: Mapping[Partition, int], *, timeout: float | None = None
    ) -> dict[TopicPartition, int | None]:
        """The first offset at or after each time, in milliseconds since 1970; None behind the last record."""
        chosen = dict(zip(read_partitions(times), times.values(), strict=True))
        with self._work.using() as consumption:
            return await self._work.ask(consumption.asks.offsets_for_times(chosen, timeout))

    # --- itself

    def group_offsets(self, offsets: Mapping[Partition, Offset] | None = None) -> GroupOffsets:
        """Argument of a transaction's `send_offsets`: the member, and these offsets or those of handed-out records."""
        given = read_offsets(offsets)
        with self._work.using() as consumption:
            return self._work.change(lambda now: consumption.calls.group_offsets(given, now))

    def group_metadata(self) -> GroupMetadata:
        with self._work.using() as consumption:
            return self._work.change(lambda _: consumption.metadata)

    def wakeup(self) -> None:
        """End the waiting call, or the next that would wait, with WokenUp. For any task."""
        self._work.wake_up()

    async def close(self, timeout: float | None = None) -> None:
        """Commit, leave the group, and end. For any task: it ends a waiting call.

        Work that is unfinished after `timeout` seconds, or `default.api.timeout.ms`, is left to the group's timeouts.
        """
        await self._work.close(lambda: self._calls.close(timeout, commit=True))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close; after an error the last records are not committed, but redelivered, within max.delivery.attempts."""
        await self._work.close(lambda: self._calls.close(None, commit=kind is None, failing=is_failure(error)))

    async def _seek(self, partitions: Iterable[Partition] | None, find: Find) -> None:
        named = None if partitions is None else read_partitions(partitions)
        with self._work.using() as consumption:
            chosen = self._work.change(lambda _: consumption.calls.named_or_all(named))
            offsets = await self._work.ask(find(consumption.asks, chosen))
            self._work.change(lambda _: consumption.calls.seek(offsets))

    def _pause(self, partitions: Iterable[Partition], *, paused: bool) -> None:
        chosen = read_partitions(partitions)
        with self._work.using() as consumption:
            self._work.change(lambda _: consumption.calls.pause(chosen, paused=paused))
