"""The API for jobs: maintains a root's tables beside the process that owns the root, or without one.

    without lock and epoch, three kinds of change, each in a commit of its own:
    log starts move · files leave · files replace others with the same rows

All other changes are made by the owner. A plan is made from the newest snapshot and committed against the snapshot that
is the newest by then: changes in between outdate the plan or leave less to do, so any process may repeat every step.
The module is long because it has all that jobs can do with a table.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple, Protocol, Self

from delta_log.delta.file_commits import JOBS_MARK, move_log_starts, replace_files, rewritten_name, take_out_files
from delta_log.delta.snapshot import Snapshot
from delta_log.delta.write_checkpoint import write_checkpoint
from delta_log.maintenance.audit.audit_files import AuditAnswer, AuditOrder
from delta_log.maintenance.audit.continuity import Finding, check_chain
from delta_log.maintenance.audit.plan import plan_audit_orders
from delta_log.maintenance.compaction.file_bins import plan_compaction
from delta_log.maintenance.compaction.merge_files import MergeAnswer, MergeOrder
from delta_log.maintenance.history import entries_beyond, is_checkpoint_due, removed_beyond
from delta_log.maintenance.orphaned_topics import names_without_log
from delta_log.maintenance.retention import RetentionPlan, plan_retention
from delta_log.model.clock_tolerance import check_clocks
from delta_log.model.errors import Corruption, LakelogError, NotAvailable, PlanOutdated, StorageRefused, TopicClosed
from delta_log.model.file_bin import Bin
from delta_log.model.lost_ranges import read_lost
from delta_log.model.topic_config import TopicConfig
from delta_log.model.types import DataFile
from delta_log.root.root import Root, as_root, open_root, read_topic_defaults
from delta_log.runtime.clock import wall_clock_ms
from delta_log.runtime.syscalls import Probe, no_probe
from delta_log.stores import Entry
from delta_log.topics.catalog import Catalog
from delta_log.topics.job_context import COMMIT_WITHIN_MS, TopicJobContext

ORPHAN_AFTER_MS: Final = 2 * COMMIT_WITHIN_MS


@dataclass(frozen=True, slots=True)
class StaleFile:
    """A file that may be deleted: no reader can need it any more."""

    path: str
    size: int


@dataclass(frozen=True, slots=True)
class VacuumPlan:
    """The clean-up that a server's background would do: a checkpoint, and files and log entries to delete."""

    checkpoint: bool
    files: tuple[StaleFile, ...]
    entries: tuple[str, ...]


class ReportProgress(Protocol):
    """Callback that gets the counts of each step as soon as the step is done."""

    def __call__(self, **more: int) -> object: ...


def _nobody(**_: int) -> None: ...


class RetentionLook(NamedTuple):
    """Topics to check for due retention, on any worker that reaches the root."""

    root: str | Root
    topics: tuple[str, ...]
    now_ms: int


def find_due(look: RetentionLook) -> list[str]:
    """The topics for which retention has work to do, or that cannot be read."""
    maintenance = Maintenance.open(look.root)
    due: list[str] = []
    for name in look.topics:
        try:
            topic = maintenance.topic(name)
            if topic.plan_retention(look.now_ms) or topic.plan_sweep(look.now_ms):
                due.append(name)
        except LakelogError:
            due.append(name)
    return due


class Maintenance:
    """Maintenance of a root's tables without owning the root."""

    def __init__(self, root: Root, catalog: Catalog, clock_ms: Callable[[], int], probe: Probe) -> None:
        self._root = root
        self._catalog = catalog
        self._clock_ms = clock_ms
        self._at = probe

    @classmethod
    def open(
        cls,
        root: str | Path | Root,
        *,
        clock_ms: Callable[[], int] = wall_clock_ms,
        probe: Probe = no_probe,
        store_options: Mapping[str, str] | None = None,
    ) -> Self:
        """Open a root with its newest owner's defaults of topic settings. Takes no lock."""
        place = as_root(root, probe=probe, store_options=store_options)
        open_root(place, create=False)
        defaults = read_topic_defaults(place.store)
        catalog = Catalog(place.store, epoch=None, server_defaults=defaults, clock_ms=clock_ms, probe=probe)
        return cls(place, catalog, clock_ms, probe)

    @property
    def location(self) -> str:
        return self._root.store.location

    def topics(self) -> list[str]:
        """Names of all topics, including closed ones."""
        return self._catalog.names()

    def names_without_log(self) -> list[str]:
        """Names of topic folders that have files but no table log."""
        return names_without_log(self._root.store, self._catalog)

    def agreed_now(self, *, only_to_look: bool = False) -> int:
        """The present time, if this host and the store agree on it: the earlier of the two, by which less is expired.

        A store tells its time by a write. If writes are refused, this host's time is enough with `only_to_look`.
        """
        host_ms = self._clock_ms()
        try:
            store_ms = self._root.store.now_ms()
        except StorageRefused:
            if only_to_look:
                return host_ms
            raise
        check_clocks(host_ms, store_ms)
        return min(host_ms, store_ms)

    @contextmanager
    def hold(self) -> Generator[None]:
        """Lock owners out; RootInUse if there is one. Records that are only in the journal wait for the next owner.

        NotAvailable if the root has no lock.
        """
        if not self._root.locks:
            raise NotAvailable(f"nobody can be kept out of {self.location}: its server does this while it runs")
        self._root.hold()
        try:
            yield
        finally:
            self._root.let_go()

    def topic(self, name: str) -> TopicMaintenance:
        """A topic with its newest state; UnknownTopic or TopicClosed if it cannot be maintained."""
        live = self._catalog.live(name)
        self._catalog.follow(live)
        ground = TopicJobContext(self.location, self._catalog, self._catalog.live(name), self._clock_ms, self._at)
        return TopicMaintenance(ground)


class TopicMaintenance:
    """Maintenance of a topic's table. For one thread."""

    def __init__(self, ground: TopicJobContext) -> None:
        self.ground = ground
        self._live = ground.live
        self._table = ground.table
        self._planned_by = ground.config
        self._clock_ms = ground.clock_ms
        self._at = ground.at

    @property
    def name(self) -> str:
        return self._live.name

    @property
    def config(self) -> TopicConfig:
        return self._live.config

    @property
    def version(self) -> int:
        return self._table.snapshot.version

    @property
    def file_count(self) -> int:
        return self._table.snapshot.file_count

    def plan_retention(self, now_ms: int) -> list[RetentionPlan]:
        """Plan what each partition loses. A topic that only compacts loses only records deleted by request."""
        config, snapshot = self.config, self._table.snapshot
        self._planned_by = config
        plans = (
            plan_retention(
                snapshot.files(index),
                log_start=snapshot.start(index),
                end=snapshot.end(index),
                retention_ms=config.retention_ms if config.deletes else None,
                retention_bytes=config.retention_bytes if config.deletes else None,
                segment_ms=config.segment_ms,
                now_ms=now_ms,
            )
            for index in range(self._live.partitions)
        )
        return [plan for plan in plans if plan is not None]

    def retain(self, plans: Sequence[RetentionPlan], told: ReportProgress = _nobody) -> list[DataFile]:
        """Move the log starts, then remove the files; returns the files that this call removed.

        PlanOutdated, and nothing is done, if the topic's retention settings have changed since the plan.
        """
        starts = {plan.partition: plan.new_log_start for plan in plans}
        move_log_starts(self._table, self._live.id, starts, self._clock_ms, self._check_limits)
        told(log_starts_moved=sum(plan.new_log_start > plan.log_start for plan in plans))
        self._at("retention.start_moved")
        leaving = [removal.file for plan in plans for removal in plan.removals]
        _, gone = take_out_files(self._table, self._live.id, leaving, self._clock_ms)
        told(files=len(gone), records=sum(file.count for file in gone), bytes=sum(file.size for file in gone))
        self._at("retention.files_left")
        return gone

    def plan_sweep(self, now_ms: int) -> list[StaleFile]:
        """Find files that can be deleted.

        These are files that left the table before its history begins and at least `file.delete.delay.ms` ago, and files
        that a job wrote but never committed.
        """
        snapshot, config = self._table.snapshot, self.config
        before_version = snapshot.version - config.history_commits
        gone = set(
            removed_beyond(snapshot, now_ms - config.history_ms, before_version, now_ms - config.file_delete_delay_ms)
        )
        return [
            StaleFile(path, entry.size)
            for path, entry in self._data_files()
            if path in gone or (JOBS_MARK in path and self._is_orphan(path, entry, now_ms))
        ]

    def orphans(self, now_ms: int) -> list[StaleFile]:
        """Files that no commit names and that are too old for a commit under way."""
        return [
            StaleFile(path, entry.size) for path, entry in self._data_files() if self._is_orphan(path, entry, now_ms)
        ]

    def sweep(self, files: Sequence[StaleFile], told: ReportProgress = _nobody) -> None:
        """Delete files from the store; a file that is already gone is no error."""
        for file in files:
            self._table.store.delete(self._table.path(file.path))
            told(files_deleted=1, bytes_deleted=file.size)
            self._at("retention.file_deleted")

    @property
    def is_checkpoint_due(self) -> bool:
        return is_checkpoint_due(self._table)

    def write_checkpoint(self) -> int:
        """Write a checkpoint; returns its version. The root must be held: the newest checkpoint must never go back."""
        return write_checkpoint(self._table, self._at)

    def plan_vacuum(self, now_ms: int) -> VacuumPlan:
        """Plan a vacuum. The root must be held: then all old files that no commit names are orphans."""
        snapshot, config = self._table.snapshot, self.config
        before_version = snapshot.version - config.history_commits
        files = dict.fromkeys([*self.plan_sweep(now_ms), *self.orphans(now_ms)])
        entries = entries_beyond(self._table, now_ms - config.history_ms, before_version)
        return VacuumPlan(self.is_checkpoint_due, tuple(files), tuple(entries))

    def vacuum(self, plan: VacuumPlan, told: ReportProgress = _nobody) -> None:
        """Carry out a vacuum. The oldest log entry goes first, so that a crash leaves a log without a gap."""
        if plan.checkpoint:
            self.write_checkpoint()
            told(checkpoints=1)
        self.sweep(plan.files, told)
        for path in plan.entries:
            self._table.store.delete(self._table.path(path))
            told(entries_deleted=1)
            self._at("vacuum.entry_deleted")

    def plan_compaction(self, now_ms: int, min_age_ms: int) -> list[Bin]:
        """Plan merges; the live edge and files below the log start are left alone."""
        config, snapshot = self.config, self._table.snapshot
        bins: list[Bin] = []
        for index in range(self._live.partitions):
            start = snapshot.start(index)
            bins += plan_compaction(
                [file for file in snapshot.files(index) if file.last_offset >= start],
                segment_bytes=config.segment_bytes,
                segment_ms=config.segment_ms,
                retention_ms=config.retention_ms if config.deletes else None,
                min_age_ms=min_age_ms,
                now_ms=now_ms,
            )
        return bins

    def order(self, bin_: Bin) -> MergeOrder:
        """The order that a worker needs to merge a bin; each order names a different file."""
        path = f"partition={bin_.partition}/{bin_.base_offset:020d}-{rewritten_name(None)}.parquet"
        return MergeOrder(self.ground.location, self._table.directory, bin_, path, self.config.parquet_codec)

    def check_chains(self) -> list[Finding]:
        """Find defects in the files as the table's log lists them, without reading a file."""
        snapshot = self._table.snapshot
        return [
            finding
            for index in range(self._live.partitions)
            for finding in check_chain(
                snapshot.files(index),
                partition=index,
                log_start=snapshot.start(index),
                end=snapshot.end(index),
                dense=True,
                clean=snapshot.clean(index),
                lost=read_lost(snapshot.configuration),
            )
        ]

    def plan_audit(self, most_bytes: int, most_files: int) -> list[AuditOrder]:
        """Split all files into audit orders of limited size."""
        snapshot, place = self._table.snapshot, (self.ground.location, self._table.directory)
        limits = {"most_bytes": most_bytes, "most_files": most_files}
        lost = read_lost(snapshot.configuration)
        return list(plan_audit_orders(*place, snapshot.all_files(), clean=snapshot.clean, lost=lost, **limits))

    def still_missing(self, answer: AuditAnswer) -> list[Finding]:
        """Findings for the missing files that the newest table still names."""
        if answer.missing:
            self.ground.follow()
        return [Finding(path, "it is missing") for path in answer.missing if self._table.snapshot.has_file(path)]

    def is_current(self, bin_: Bin) -> bool:
        """True if all files of the bin are in the newest table."""
        snapshot = self.ground.follow()
        return all(snapshot.has_file(file.path) for file in bin_.inputs)

    def settle(self, answer: MergeAnswer) -> int:
        """Commit the replacement of the old files by the new one; returns the version.

        PlanOutdated if another process changed one of them first; the new file is deleted then. Corruption if a file
        of the newest table is missing or damaged.
        """
        bin_, file = answer.order.bin, answer.file
        try:
            if file is None:
                raise self._why_not_merged(answer)
            self.ground.check_young([file], answer.begun_ms)
        except LakelogError:
            if file is not None:
                self._table.store.delete(self._table.path(file.path))
            raise
        version = replace_files(self._table, self._live.id, bin_.inputs, [file], self._clock_ms, data_change=False)
        self._at("compaction.committed")
        return version

    def _why_not_merged(self, answer: MergeAnswer) -> LakelogError:
        if answer.damaged is not None:
            return Corruption(*answer.damaged)
        if not answer.missing:
            return TopicClosed(self.name, answer.failed)
        if self.is_current(answer.order.bin):
            return Corruption(answer.missing, "it is missing")
        return PlanOutdated(self.name, f"{answer.missing} has left the table")

    def _check_limits(self, snapshot: Snapshot) -> None:
        if _limits_of(self._planned_by.renewed(snapshot.configuration)) != _limits_of(self._planned_by):
            raise PlanOutdated(self.name, "its settings were changed")

    def _data_files(self) -> Iterator[tuple[str, Entry]]:
        for index in range(self._live.partitions):
            directory = f"partition={index}"
            for entry in self._table.store.list(self._table.path(directory)):
                yield f"{directory}/{entry.name}", entry

    def _is_orphan(self, path: str, entry: Entry, now_ms: int) -> bool:
        named = self._table.snapshot.has_file(path) or path in self._table.snapshot.removed
        return not named and now_ms - entry.modified_ms > ORPHAN_AFTER_MS


def _limits_of(config: TopicConfig) -> tuple[object, ...]:
    """The settings that retention depends on."""
    return config.deletes, config.retention_ms, config.retention_bytes, config.segment_ms
