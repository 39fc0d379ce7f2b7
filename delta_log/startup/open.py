"""The composition root: starts a log from a root, in the only safe order, and stops it.

Longer than 300 lines, because each step of a start is next to its fallback for a full disk.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from delta_log.append.group_commit import Limits, Writer
from delta_log.commit.commit_scheduler import CommitScheduler
from delta_log.commit.table_committer import TableCommitter, TailMemory
from delta_log.delta.conflicts import TOPIC_ID
from delta_log.delta.parquet import read_file
from delta_log.delta.table import Table
from delta_log.delta.topic_commits import MAX_PARTITIONS, MAX_PARTITIONS_IN_ALL, PartitionLimits
from delta_log.journal import Journal
from delta_log.journal.local import SEGMENT_SIZE
from delta_log.maintenance.background import BackgroundMaintenance
from delta_log.maintenance.topic_deletion import carry_out_deletion, finish_deletions
from delta_log.model.errors import DiskFull, LakelogError, NotOwner, TopicClosed
from delta_log.model.names import is_internal
from delta_log.model.schema import PRODUCERS_SCHEMA
from delta_log.model.topic_config import TopicConfig
from delta_log.model.transaction_bounds import Bounds
from delta_log.root.owner_epoch import is_replaced
from delta_log.root.root import Root, RootInfo, claim_epoch, has_owners, next_epoch, open_root
from delta_log.runtime.clock import wall_clock_ms
from delta_log.runtime.disk_room import BallastThread
from delta_log.runtime.file_modes import find_wider
from delta_log.runtime.syscalls import Probe, no_probe
from delta_log.startup.recovery import Report, replay
from delta_log.startup.upgrade import upgrade_held
from delta_log.stores import Store
from delta_log.topics.catalog import TOPICS, Catalog
from delta_log.topics.partition_state import wake_all
from delta_log.topics.topic_state import PRODUCERS_TABLE, TopicState, producer_rows, stored_rows

_log = logging.getLogger("lakelog")


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings of a log. `topic_defaults` have Kafka's names; a topic's own settings override them."""

    topic_defaults: Mapping[str, object] = field(default_factory=dict[str, object])
    limits: Limits = field(default_factory=Limits)
    tail_bytes: int = 128 * 1024 * 1024
    table_workers: int = 2
    files_per_second: float = 500.0
    segment_bytes: int = SEGMENT_SIZE
    #: on an object store, the minimum time between two writes of the journal
    journal_linger_ms: int = 50
    upkeep: bool = True
    #: space reserved on the disk of a directory, released when the disk is full; less on a small disk
    ballast_bytes: int = 0
    max_block_s: float = 60.0
    producer_expiration_ms: int = 86_400_000
    producer_wait_s: float = 1.0
    max_partitions_per_topic: int = MAX_PARTITIONS
    max_partitions: int = MAX_PARTITIONS_IN_ALL
    transactions: Bounds = field(default_factory=Bounds)


@dataclass(slots=True)
class Running:
    """The parts of a log that is open for writing."""

    root: Root
    info: RootInfo
    epoch: int
    catalog: Catalog
    journal: Journal
    writer: Writer
    tabler: CommitScheduler
    tabling: TableCommitter
    upkeep: BackgroundMaintenance
    encoders: ThreadPoolExecutor
    #: creates tables and takes ownership of them for event loops
    owning: ThreadPoolExecutor
    report: Report
    ballast: BallastThread | None = None


def start(
    root: Root, settings: Settings, *, clock_ms: Callable[[], int] = wall_clock_ms, probe: Probe = no_probe
) -> Running:
    """Take ownership of the root, replay its journal, and start the commits to the tables."""
    began = time.monotonic()
    TopicConfig.of({}, server_defaults=settings.topic_defaults)
    info = open_root(root, create=True)
    root.hold()
    try:
        info = upgrade_held(root, info)
        if wider := find_wider(root.store.location):
            _log.warning("wider than a root is made: %s", wider)
        after = 0 if has_owners(root.store) else _epoch_of_tables(root.store)
        epoch, claimed = _claim(root, clock_ms(), settings, after)
        running = _compose(root, info, epoch, settings, clock_ms, probe)
        if running.ballast is not None:
            running.ballast.claim = None if claimed else partial(_claim_later, running, settings, after)
            with suppress(OSError):  # its thread logs the error and retries
                running.ballast.look(may_fill=False)
        running.report = _recover(running)
        # Producers that an earlier process forgot stay forgotten: another producer may use the id since.
        running.writer.producers.expire(clock_ms() - settings.producer_expiration_ms)
        running.writer.producers.close_reserved()
    except BaseException:
        root.let_go()
        raise
    running.tabler.start()
    for live in running.catalog.lives():
        if live.pending:
            running.tabler.notice(live)
    if settings.upkeep:
        running.upkeep.start(running.report.tables)
    if running.ballast is not None:
        running.ballast.start()
    took = (time.monotonic() - began) * 1000
    _log.info("opened %s as epoch %d in %.0f ms; %s", root.store.location, epoch, took, running.report)
    return running


def stop(running: Running) -> bool:
    """Flush everything to the tables, empty the journal, release the root; True if nothing was left."""
    if running.ballast is not None:
        running.ballast.stop()
    running.upkeep.stop()
    lost = running.writer.fatal is not None
    running.writer.alone(running.writer.close)
    running.owning.shutdown(wait=True)
    complete = running.tabler.stop([] if lost else running.catalog.lives()) and not lost
    complete = complete and finish_deletions(running.catalog, running.writer) and running.journal.doubt is None
    running.encoders.shutdown(wait=True)
    running.journal.close(empty=complete and not running.report.closed and not running.writer.aside)
    running.root.let_go()
    return complete


def _claim(root: Root, now_ms: int, settings: Settings, after: int) -> tuple[int, bool]:
    """Claim the next epoch; returns it, and whether the claim is stored. On a full disk, dispensable files go first.

    If that is not enough, a locked root serves reads without the claim: no other process can take the same epoch.
    """
    while True:
        try:
            epoch = claim_epoch(root.owners, now_ms, settings.topic_defaults, after=after)
            root.room.unseal()
            return epoch, True
        except DiskFull:
            if root.make_room():
                continue
            if not root.locks:
                raise
            root.room.seal()
            epoch = next_epoch(root.store, after)
            _log.warning("there was no room to take epoch %d: nothing is written, reads are served", epoch)
            return epoch, False


def _claim_later(running: Running, settings: Settings, after: int) -> None:
    """Store the claim that a start had no room for. Until then this epoch has written nothing."""
    now_ms = wall_clock_ms()
    epoch = claim_epoch(running.root.owners, now_ms, settings.topic_defaults, after=after)
    if epoch != running.epoch:
        running.upkeep.lose_ownership(NotOwner(f"epoch {running.epoch} was taken while there was no room to take it"))


def _epoch_of_tables(store: Store) -> int:
    """The newest epoch in any table: a copy of only the tables has no other trace, and the new epoch must be later."""
    newest = 0
    for entry in store.list(TOPICS):
        table = Table(store, f"{TOPICS}/{entry.name}")
        try:
            newest = max(newest, table.snapshot.epoch) if table.load() else newest
        except LakelogError as error:
            _log.warning("no epoch can be read of %s: %s", entry.name, error)
    return newest


def take_ownership(running: Running, live: TopicState) -> None:
    """Take ownership of a table before its first offset is assigned."""
    if not live.owned and not live.deleted:
        if live.closed is not None:
            raise live.closed
        running.tabler.bring_up(live)
        running.catalog.apply_settings(live)  # a former owner may have changed them until now


def open_producer_table(running: Running) -> TopicState:
    """Take ownership of the table of idempotent producers; it is created for the first such producer."""
    sequencer = running.writer.sequencer
    if sequencer.producer_table is None:
        sequencer.producer_table = running.catalog.producers(create=True)
    if sequencer.producer_table is None:
        raise TopicClosed(PRODUCERS_TABLE, "it could not be made", "try again")
    take_ownership(running, sequencer.producer_table)
    return sequencer.producer_table


def _compose(
    root: Root, info: RootInfo, epoch: int, settings: Settings, clock_ms: Callable[[], int], probe: Probe
) -> Running:
    def lost_ownership(error: LakelogError) -> None:
        _log.error("no longer the owner of %s: %s", root.store.location, error)
        writer.close(error)
        for live in catalog.lives():
            for tail in live.tails:
                wake_all(tail.stop_all_waiting())

    def table(live: TopicState, limit: int) -> bool:
        more = tabling.commit(live, limit)
        try:
            if settings.upkeep:
                upkeep.keep_up(live)
            else:
                upkeep.shorten_tail(live)
        except LakelogError as error:
            _log.warning("no checkpoint or fold of %s for now: %s", live.name, error)
        return more

    catalog = Catalog(
        root.store,
        epoch=epoch,
        server_defaults=settings.topic_defaults,
        clock_ms=clock_ms,
        probe=probe,
        partition_limits=PartitionLimits(settings.max_partitions_per_topic, settings.max_partitions),
    )
    journal = root.journal(epoch)
    tabler = CommitScheduler(
        table,
        workers=settings.table_workers,
        files_per_second=settings.files_per_second,
        lost_ownership=lost_ownership,
    )
    writer = Writer(journal, epoch, tabler, settings.limits, root.room)
    at_once = max(settings.table_workers, root.writes_at_once)
    encoders = ThreadPoolExecutor(at_once, thread_name_prefix="lakelog-encode")
    owning = ThreadPoolExecutor(1, thread_name_prefix="lakelog-own")
    memory = TailMemory(settings.tail_bytes)
    together = root.writes_at_once > 1
    tabling = TableCommitter(journal, writer, encoders, memory, clock_ms=clock_ms, together=together, probe=probe)
    upkeep = BackgroundMaintenance(
        catalog,
        journal,
        writer,
        clock_ms=clock_ms,
        producer_expiration_ms=settings.producer_expiration_ms,
        is_replaced=lambda: not root.room.sealed and is_replaced(root.store, epoch),
        lost_ownership=lost_ownership,
        probe=probe,
    )
    ballast = root.ballast(journal, settings.ballast_bytes)
    parts = (catalog, journal, writer, tabler, tabling, upkeep, encoders, owning)
    return Running(root, info, epoch, *parts, Report(), ballast)


def _recover(running: Running) -> Report:
    catalog, writer = running.catalog, running.writer
    found = running.journal.recover()  # before any table is read: a former owner may still be writing to them
    writer.sequencer.producer_table = _load_producers(running)
    report = replay(found, running.journal, writer, catalog.find, catalog.table_names)
    for name, error in report.closed.items():
        catalog.bar(name, error)
    if writer.sequencer.producer_table is not None:
        for group in writer.sequencer.producer_table.pending:
            for _, chunk in group.chunks:
                if not chunk.lost:
                    for row in stored_rows(chunk, running.journal):
                        writer.producers.replay(row)
    for name, topic_id, decision in report.decisions:
        _finish_decision(running, report, name, topic_id, decision)
    return report


def _load_producers(running: Running) -> TopicState | None:
    """Load the table of producers; if it is damaged, only idempotent requests are refused."""
    producers: TopicState | None = None
    try:
        producers = running.catalog.producers(create=False)
        if producers is None:
            return None
        table = producers.table
        for file in table.snapshot.files(-1):
            for _, row in producer_rows(read_file(table.store, table.path(file.path), PRODUCERS_SCHEMA)):
                running.writer.producers.replay(row)
    except (LakelogError, FileNotFoundError) as error:
        _log.error("requests of idempotent producers are refused: %s", error)
        why = TopicClosed(PRODUCERS_TABLE, str(error), "see what `lakelog repair --dry-run` would do")
        if producers is not None:
            producers.closed = why
        else:
            running.catalog.bar(PRODUCERS_TABLE, why)
        return None
    return producers


def _finish_decision(running: Running, report: Report, name: str, topic_id: str, decision: Mapping[str, Any]) -> None:
    """Carry out a durable decision after a crash, however long ago."""
    catalog = running.catalog
    live = None if is_internal(name) else catalog.find(name)
    if live is None or live.table.snapshot.configuration.get(TOPIC_ID) != topic_id:
        return
    if decision.get("delete"):
        live.deleted = True
        try:
            carry_out_deletion(catalog, running.writer, live)
        except LakelogError as error:
            report.closed[name] = error
            _log.error("topic %s cannot be deleted yet: %s", name, error)
