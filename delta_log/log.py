"""The one door: a log of topics in a root, for any Python program.

    with Log.open("events") as log:
        log.create_topic("orders", partitions=4)
        log.append("orders", [Record(b"hello", key=b"k")])
        for record in log.read("orders", 2, 0).records(): ...

Once `append` returns, the records are durable, keep their offsets for ever, and become rows of the topic's Delta table
within about a second. All methods are thread-safe. The module is long because it has every operation of a log.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path
from typing import Self, TypeVar

from delta_log.commit.table_committer import is_tabled
from delta_log.delta.topic_commits import ConfigValue
from delta_log.keyed import Ledger
from delta_log.maintenance.delete_records import delete_records
from delta_log.maintenance.retention import DeleteRecordsPlan, RetentionPlan
from delta_log.maintenance.topic_deletion import carry_out_deletion, decide_deletion, finish_deletion
from delta_log.model.errors import Closed, DiskFull, LakelogError, OutcomeUnknown
from delta_log.model.topic_config import TopicConfig
from delta_log.model.types import Appended, OffsetRange
from delta_log.owner import Appending
from delta_log.records.keyed_table import LedgerTable
from delta_log.root.owner_epoch import is_replaced
from delta_log.root.root import Root, as_root
from delta_log.runtime.clock import wall_clock_ms
from delta_log.runtime.meters import LogStatistics, TransactionStatistics
from delta_log.runtime.syscalls import Disk, Probe, no_probe
from delta_log.startup.open import Running, Settings, open_producer_table, start, stop, take_ownership
from delta_log.stats import measure_log, why_refused
from delta_log.topics.catalog import TopicInfo
from delta_log.topics.partition_state import Waiter, wake_all
from delta_log.topics.topic_state import TableWaiter
from delta_log.transactions.coordinator import Transactions
from delta_log.transactions.transaction_log import TRANSACTIONS

T = TypeVar("T")


class Log(Appending):
    """A log whose root this process owns."""

    def __init__(self, running: Running, settings: Settings, clock_ms: Callable[[], int]) -> None:
        super().__init__(running, settings, clock_ms)
        self._closing = threading.Lock()
        #: separate from `_closing`: the background creates transactions, too, and a close waits for the background
        self._making_transactions = threading.Lock()
        self._complete = False
        self._transactions: Transactions | None = None
        self._knows_past_transactions = False
        running.upkeep.extra_tasks.append(self._take_up_transactions)

    @classmethod
    def open(
        cls,
        root: str | Path | Root,
        *,
        settings: Settings | None = None,
        clock_ms: Callable[[], int] = wall_clock_ms,
        disk: Disk | None = None,
        probe: Probe = no_probe,
        store_options: Mapping[str, str] | None = None,
    ) -> Self:
        """Take ownership of a root: a directory, created if needed, a place in a bucket, or `memory://`.

        RootInUse while another process owns it; a root in a bucket is taken over instead, and may need `store_options`.
        """
        chosen = settings or Settings()
        place = as_root(
            root,
            disk=disk,
            probe=probe,
            segment_size=chosen.segment_bytes,
            linger_ms=chosen.journal_linger_ms,
            store_options=store_options,
        )
        return cls(start(place, chosen, clock_ms=clock_ms, probe=probe), chosen, clock_ms)

    @property
    def cluster_id(self) -> str:
        return self._running.info.cluster_id

    @property
    def epoch(self) -> int:
        """The number of this ownership; a later epoch ends it."""
        return self._running.epoch

    @property
    def recovery(self) -> str:
        """The report of the recovery at start, as text."""
        return str(self._running.report)

    @property
    def refuses(self) -> str | None:
        """The reason why nothing can be written now; None while writes are accepted."""
        return why_refused(self._running)

    def statistics(self) -> LogStatistics:
        """Statistics for monitoring. Cheap enough to call often; also works on a closed log."""
        known = self._transactions
        transactions = TransactionStatistics() if known is None else known.statistics()
        return measure_log(self._running, self._clock_ms(), transactions)

    def create_topic(
        self, topic: str, partitions: int = 1, config: Mapping[str, ConfigValue] | None = None
    ) -> TopicInfo:
        """Create a topic; TopicExists if there is one of that name or of too similar a name."""
        self._check_writable()
        self._running.writer.room.check_records(f"topic {topic}")
        finish_deletion(self._running.catalog, self._running.writer, topic)
        live = self._running.catalog.create(topic, partitions, config or {})
        self._check_not_replaced(topic)
        return TopicInfo(live.name, live.id, live.partitions, live.config)

    def check_partitions(self, topic: str, partitions: int) -> None:
        """Raise if a new topic could not have so many partitions."""
        self._running.catalog.check_partitions(topic, partitions)

    def _check_not_replaced(self, topic: str) -> None:
        """Check after a creation: a new owner may have listed the topics before, and not know the new one."""
        root, unknown = self._running.root, f"whether topic {topic} is there"
        if root.locks:
            return
        try:
            replaced = is_replaced(root.store, self._running.epoch)
        except LakelogError as error:
            raise OutcomeUnknown(unknown, error) from error
        if replaced:
            raise OutcomeUnknown(unknown, "somebody else has taken the root")

    def alter_topic(self, topic: str, changes: Mapping[str, ConfigValue]) -> TopicConfig:
        """Change settings, by Kafka's names; None resets one to its default."""
        self._check_writable()
        return self._with_room(lambda: self._running.catalog.alter(self._live(topic), changes))

    def add_partitions(self, topic: str, partitions: int) -> None:
        """Raise the number of partitions. Keys move between partitions: order is kept only within a partition."""
        self._check_writable()
        self._running.writer.room.check_records(f"a partition of {topic}")
        live = self._live(topic)
        self._running.writer.alone(lambda: self._running.catalog.add_partitions(live, partitions))

    def delete_topic(self, topic: str) -> None:
        """Delete a topic: gone for good once this returns, even after a crash. A new one of its name starts at 0."""
        self._check_writable()
        live = self._live(topic)
        self._with_room(lambda: decide_deletion(self._running.writer, live, self._clock_ms()))
        self._with_room(lambda: carry_out_deletion(self._running.catalog, self._running.writer, live))

    def _with_room(self, act: Callable[[], T]) -> T:
        """Run an action that makes room; if the disk is full, give it some of the ballast and retry once."""
        try:
            return act()
        except DiskFull:
            ballast = self._running.ballast
            if ballast is None or not ballast.give_slice():
                raise
            return act()

    def open_ledger(self, tables: Sequence[LedgerTable]) -> Ledger:
        """Open keyed tables beside the topics, journaled with the records; they cannot be used as topics."""
        self._check_writable()
        return Ledger(self._running, tables, self._loops, self._wait_for_room, self._clock_ms)

    @property
    def opened_transactions(self) -> Transactions | None:
        """The `transactions` if they are already open, else None; reads nothing."""
        return self._transactions

    @property
    def transactions(self) -> Transactions:
        """Transactions: records for any topics, and data committed with them, that become visible together or never."""
        with self._making_transactions:
            if self._transactions is None:
                self._check_writable()
                self._transactions = Transactions(
                    self._running.writer,
                    self.open_ledger([TRANSACTIONS]),
                    self._prepare_numbered,
                    lambda: open_producer_table(self._running),
                    self._settings.transactions,
                    self._clock_ms,
                    self._running.root.scratch,
                    self._live,
                )
                self._running.upkeep.extra_tasks += [self._transactions.expire, self._transactions.complete]
                self._running.upkeep.active_transactional_ids = self._transactions.open_names
            return self._transactions

    def _take_up_transactions(self) -> None:
        """Open past transactions once, in the background: some may have to be completed, or be forgotten."""
        if self._knows_past_transactions:
            return
        if self._running.catalog.ledger(TRANSACTIONS, create=False) is not None:
            with suppress(Closed):
                _ = self.transactions
        self._knows_past_transactions = True

    def on_records(self, topic: str, partition: int, offset: int, wake: Callable[[], None]) -> Callable[[], None]:
        """Call `wake` once, as soon as a record at or after `offset` is visible.

        Returns a function that cancels the call. `wake` runs in the thread that made the record visible, and must not
        block.
        """
        tail = self._partition(topic, partition).tails[partition]
        waiter = Waiter(offset, wake)
        if not tail.wait(waiter):
            wake()
        return lambda: tail.stop_waiting(waiter)

    def when_tabled(self, topic: str, appended: Appended) -> Future[int]:
        """Future of a version of the topic's table that has these records; requests an early commit."""
        live = self._live(topic)
        everything = [OffsetRange(index, 0, tail.high_watermark) for index, tail in enumerate(live.tails)]
        waiter = TableWaiter(appended.ranges or everything, Future())
        with live.lock:
            if live.closed is not None:
                raise live.closed
            live.table_waiters.append(waiter)
            done = is_tabled(live, waiter.ranges)
            if done:
                live.table_waiters.remove(waiter)
        if done:
            waiter.future.set_result(live.table.snapshot.version)
        else:
            self._running.tabler.notice(live)
        return waiter.future

    def flush(self, topic: str | None = None) -> None:
        """Bring the table of a topic, or every table, up to the records acknowledged so far."""
        self._check_writable()
        for live in self._running.catalog.lives() if topic is None else [self._live(topic)]:
            if not live.deleted and live.closed is None:
                self._running.tabler.bring_up(live)

    def delete_records(self, topic: str, partition: int, before_offset: int) -> DeleteRecordsPlan:
        """Move the log start up to an offset, −1 for the end; the records below are deleted."""
        self._check_writable()
        live = self._partition(topic, partition)
        bring_up, clock_ms = self._running.tabler.bring_up, self._clock_ms
        return self._with_room(
            lambda: delete_records(live, partition, before_offset, bring_up=bring_up, clock_ms=clock_ms)
        )

    def run_retention(self, topic: str) -> list[RetentionPlan]:
        """Remove records beyond the topic's limits; returns the plans that were carried out."""
        self._check_writable()
        live = self._live(topic)
        if not self._running.writer.room.full:
            take_ownership(self._running, live)
        return self._with_room(lambda: self._running.upkeep.retain(live, self._clock_ms()))

    def fold(self, topic: str) -> int:
        """Merge small files now, without waiting for the background; returns the number of merges."""
        self._check_writable()
        return self._running.upkeep.fold(self._live(topic))

    def run_upkeep(self) -> None:
        """Run one pass of all background work."""
        self._check_writable()
        self._running.upkeep.run_once()

    def close(self) -> bool:
        """Flush everything to the tables and release the root; False if records stay only in the journal."""
        with self._closing:
            if not self._closed:
                if self._transactions is not None:
                    with suppress(LakelogError):
                        self._transactions.complete()
                with self._making_transactions:
                    super().close()
                if self._transactions is not None:
                    self._transactions.close()
                self._let_go_of_readers()
                self._complete = stop(self._running)
                self._let_go_of_readers()
            return self._complete

    def _let_go_of_readers(self) -> None:
        for live in self._running.catalog.lives():
            for tail in live.tails:
                wake_all(tail.stop_all_waiting())
