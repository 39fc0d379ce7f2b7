"""Topics: create, find, change, delete. Each is a Delta table whose properties hold all of its metadata.

The module is long because one lock guards which tables are open, barred or deleted.
"""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from delta_log.delta.conflicts import TOPIC_ID, Kind
from delta_log.delta.snapshot import Snapshot
from delta_log.delta.table import Table
from delta_log.delta.topic_commits import (
    DELETED,
    EXPORTED,
    PARTITIONS,
    Author,
    ConfigValue,
    NewTopic,
    PartitionLimits,
    plan_alteration,
    plan_creation,
    plan_deletion,
    plan_more_partitions,
)
from delta_log.delta.write_checkpoint import write_checkpoint
from delta_log.model.errors import (
    Corruption,
    LakelogError,
    TopicClosed,
    TopicExists,
    UnknownTopic,
)
from delta_log.model.names import check_topic_name, collision_key, is_internal
from delta_log.model.schema import PRODUCERS_SCHEMA
from delta_log.model.topic_config import TopicConfig
from delta_log.model.topic_settings import INT64_MAX
from delta_log.records.keyed_table import LedgerTable, ledger_of, ledger_properties
from delta_log.records.validation import Rules
from delta_log.runtime.syscalls import Probe, no_probe
from delta_log.stores import Store
from delta_log.topics.partition_state import PartitionState, wake_all
from delta_log.topics.row_formats import LedgerRows
from delta_log.topics.topic_state import PRODUCERS_TABLE, ProducerRows, RowFormat, TopicRows, TopicState

TOPICS: Final = "topics"
#: Internal tables get up to a commit a second, and need no time travel over days.
_LEDGER_CONFIG: Final[dict[str, object]] = {"lakelog.history.commits": 1000}


@dataclass(frozen=True, slots=True)
class TopicInfo:
    """Description of a topic."""

    name: str
    id: str
    partitions: int
    config: TopicConfig


class Catalog:
    """The topics of a root. A table is opened on first use, so unused topics cost nothing."""

    def __init__(
        self,
        store: Store,
        *,
        epoch: int | None,
        server_defaults: Mapping[str, object],
        clock_ms: Callable[[], int],
        probe: Probe = no_probe,
        partition_limits: PartitionLimits | None = None,
    ) -> None:
        self._store = store
        self._partition_limits = partition_limits or PartitionLimits()
        self._epoch = epoch
        self._defaults = dict(server_defaults)
        self._clock_ms = clock_ms
        self._probe = probe
        self._lives: dict[str, TopicState] = {}
        #: the server's internal tables, which no client can name
        self._internal: dict[str, TopicState] = {}
        self._barred: dict[str, LakelogError] = {}
        #: the error of the last failed attempt to open each table
        self._failed: dict[str, LakelogError] = {}
        #: tables that were exported: other engines write to them
        self._exported: set[str] = set()
        self._lock = threading.RLock()

    def lives(self) -> list[TopicState]:
        """The open tables, including the internal ones."""
        return [*self._lives.values(), *self._internal.values()]

    def opened(self, name: str) -> TopicState | None:
        """A topic if it is open already."""
        return self._lives.get(name)

    def unusable(self) -> dict[str, str]:
        """The tables that could not be opened or replayed, with the reason; only those that were tried."""
        return {name: str(error) for name, error in (self._failed | self._barred).items()}

    def names(self) -> list[str]:
        """The names of all topics, including closed ones."""
        names: list[str] = []
        for entry in self._store.list(TOPICS):
            if entry.is_directory and not is_internal(entry.name):
                try:
                    self.live(entry.name)
                except UnknownTopic:
                    continue
                except LakelogError:
                    pass
                if entry.name not in self._exported:
                    names.append(entry.name)
        return names

    def live(self, name: str) -> TopicState:
        """Returns a topic, opening it if necessary."""
        live = self._lives.get(name)
        if live is None:
            live = self._open(name)
        if live.deleted:
            if self._epoch is None:
                self.forget(live)
            raise UnknownTopic(name)
        return live

    def bar(self, name: str, why: LakelogError) -> None:
        """Keep a topic closed until the next start, even if its table is repaired: the journal was not replayed."""
        self._barred[name] = why

    def find(self, name: str) -> TopicState | None:
        """For recovery: returns a table by name, even a deleted one; None if there is none."""
        if is_internal(name):
            return self._open_internal(name, None)
        try:
            return self._lives.get(name) or self._open(name)
        except UnknownTopic:
            return None

    def table_names(self) -> list[str]:
        """The names of all topics and internal tables."""
        internal = [entry.name for entry in self._store.list(TOPICS) if is_internal(entry.name)]
        return [*self.names(), *internal]

    def unopened(self) -> list[str]:
        """The names of topics that are not open, including deleted ones."""
        return [
            entry.name
            for entry in self._store.list(TOPICS)
            if entry.is_directory
            and entry.name not in self._lives
            and entry.name not in self._exported
            and not is_internal(entry.name)
        ]

    def describe(self, name: str) -> TopicInfo:
        live = self.live(name)
        return TopicInfo(live.name, live.id, live.partitions, live.config)

    def create(self, name: str, partitions: int, config: Mapping[str, ConfigValue]) -> TopicState:
        """Create a topic, or reuse a deleted topic's table: with new offsets, a new id, and its older versions."""
        check_topic_name(name)
        self.check_partitions(name, partitions)
        given = {key: value for key, value in config.items() if value is not None}
        resolved = TopicConfig.of(given, server_defaults=self._defaults)
        with self._lock:
            self._check_collisions(name)
            self.check_partitions(name, partitions)
            table = self._table(name)
            table.load()
            return self._create(table, _new_topic(name, partitions, resolved))

    def check_partitions(self, name: str, partitions: int, had: int = 0) -> None:
        """Check the limits on partitions, of the topic and in total. Topics not opened yet are not counted."""
        present = sum(live.partitions for live in list(self._lives.values()) if not live.deleted)
        self._partition_limits.check(name, partitions, had, present)

    def producers(self, *, create: bool) -> TopicState | None:
        """The table of idempotent producers; created when the first one appears."""
        return self._open_internal(PRODUCERS_TABLE, _new_producers() if create else None)

    def ledger(self, table: LedgerTable, *, create: bool) -> TopicState | None:
        """A keyed table; created for its first row. TopicClosed if the name is taken by a different table."""
        live = self._open_internal(table.name, _new_ledger(table) if create else None)
        if live is not None and not (isinstance(live.rows, LedgerRows) and live.rows.table == table):
            raise TopicClosed(table.name, "its table has other columns or another key than this version knows")
        return live

    def alter(self, live: TopicState, changes: Mapping[str, ConfigValue]) -> TopicConfig:
        """Change settings of a topic."""
        author = self._author()
        live.table.commit(
            Kind.CONFIG,
            lambda snapshot: plan_alteration(snapshot, live.name, live.id, changes, self._defaults, author),
        )
        self.apply_settings(live)
        return live.config

    def add_partitions(self, live: TopicState, partitions: int) -> None:
        """Raise the number of partitions; it can never be lowered."""
        author = self._author()
        with self._lock:  # of two concurrent calls, the second counts what the first added
            if type(partitions) is int and partitions > live.partitions:
                self.check_partitions(live.name, partitions, live.partitions)
            live.table.commit(
                Kind.CONFIG, lambda snapshot: plan_more_partitions(snapshot, live.name, live.id, partitions, author)
            )
            self.apply_settings(live)

    def delete(self, live: TopicState) -> None:
        """Remove everything from the table and mark it deleted. Does nothing if it is deleted already."""
        author = self._author()
        live.table.commit(Kind.CONFIG, lambda snapshot: plan_deletion(snapshot, live.name, live.id, author))

    def follow(self, live: TopicState) -> None:
        """Apply what others committed to a table. Without ownership, the log end offsets come from it, too."""
        live.last_follow = time.monotonic()
        live.table.follow()
        snapshot = live.table.snapshot
        if snapshot.version == live.followed:
            return
        live.followed = snapshot.version
        live.deleted = live.deleted or DELETED in snapshot.configuration
        if self._epoch is None and (live.deleted or snapshot.configuration.get(TOPIC_ID) != live.id):
            live.deleted = True
            self.forget(live)
            return
        if not live.deleted and snapshot.configuration.get(TOPIC_ID) == live.id:
            self.apply_settings(live)  # a former owner may have changed them until this one took the table over
        for index, tail in enumerate(live.tails):
            tail.log_start_offset = max(tail.log_start_offset, snapshot.start(index))
            tail.drop_below(snapshot.clean(index))  # the files, not memory, hold what is left below it
            if self._epoch is None:
                tail.table_offset = tail.log_end_offset = snapshot.end(index)
                wake_all(tail.advance(snapshot.end(index)))

    def bury(self, name: str, now_ms: int, after_ms: int = INT64_MAX) -> bool:
        """Remove a deleted topic's table for good, once no plan made for it can still be committed, or `after_ms`."""
        with self._lock:
            table = self._table(name)
            table.load()
            properties = table.snapshot.configuration
            history_ms = min(TopicConfig.from_properties(properties).history_ms, after_ms)
            if DELETED not in properties or now_ms - int(properties[DELETED]) <= history_ms:
                return False
            write_checkpoint(table)  # whichever file of its log is removed first, the rest still marks it deleted
            self._store.delete_directory(table.directory)
            self._lives.pop(name, None)
            return True

    def forget(self, live: TopicState) -> None:
        """Drop a deleted topic from the open ones."""
        with self._lock:
            if self._lives.get(live.name) is live:
                del self._lives[live.name]

    def _open(self, name: str) -> TopicState:
        check_topic_name(name)
        with self._lock:
            live = self._lives.get(name)
            if live is not None:
                return live
            self._check_barred(name)
            live = self._load(name)
            if live is None:
                raise UnknownTopic(name)
            return live

    def _open_internal(self, name: str, fresh: NewTopic | None) -> TopicState | None:
        """Open an internal table; create it from `fresh` if there is none."""
        with self._lock:
            live = self._internal.get(name)
            if live is None:
                self._check_barred(name)
                live = self._load(name)
            if live is None and fresh is not None:
                live = self._create(self._table(name), fresh)
            return live

    def _load(self, name: str) -> TopicState | None:
        self._failed.pop(name, None)
        table = self._table(name)
        try:
            if not _load(table):
                return None
            live = self._make_live(name, table)
        except LakelogError as error:
            if EXPORTED in table.snapshot.configuration:
                self._exported.add(name)
                why = "it was exported: others write to its table, and it is no topic any more"
                raise TopicClosed(name, why, "move the table out of the root to use the name again") from error
            self._failed[name] = error
            raise
        return live

    def _check_barred(self, name: str) -> None:
        if name in self._barred:
            raise self._barred[name]

    def _table(self, name: str) -> Table:
        return Table(self._store, f"{TOPICS}/{name}", epoch=self._epoch, probe=self._probe)

    def _make_live(self, name: str, table: Table) -> TopicState:
        snapshot = table.snapshot
        properties = snapshot.configuration
        if TOPIC_ID not in properties or PARTITIONS not in properties or EXPORTED in properties:
            raise TopicClosed(name, "its table was not made by lakelog")
        config = TopicConfig.from_properties(properties, server_defaults=self._defaults)
        count = int(properties[PARTITIONS])
        live = TopicState(
            name,
            properties[TOPIC_ID],
            table,
            _row_format(name, snapshot),
            [PartitionState(snapshot.start(index), snapshot.end(index)) for index in range(count)],
            config,
            Rules.of(name, count, config),
            owned=self._epoch is not None and snapshot.epoch == self._epoch,
            deleted=DELETED in properties,
        )
        (self._internal if live.internal else self._lives)[name] = live
        return live

    def apply_settings(self, live: TopicState) -> None:
        """Apply the table's current properties; one thread at a time, or a partition would be added twice."""
        with live.table.lock:
            snapshot = live.table.snapshot
            properties = snapshot.configuration
            config = TopicConfig.from_properties(properties, server_defaults=self._defaults)
            count = int(properties[PARTITIONS])
            live.tails += [PartitionState(snapshot.start(i), snapshot.end(i)) for i in range(live.partitions, count)]
            live.config, live.rules = config, Rules.of(live.name, count, config)

    def _create(self, table: Table, topic: NewTopic) -> TopicState:
        author = self._author()
        try:
            table.commit(Kind.CONFIG, lambda snapshot: plan_creation(snapshot, topic, author))
        except TopicExists:
            known = self._lives.get(topic.name)
            if known is not None and known.deleted:
                self.forget(known)  # a former owner recreated it after the check above
            raise
        return self._make_live(topic.name, table)

    def _author(self) -> Author:
        return Author(uuid.uuid4().hex, self._clock_ms(), self._epoch or 0)

    def _check_collisions(self, name: str) -> None:
        wanted = collision_key(name)
        for entry in self._store.list(TOPICS):
            if entry.is_directory and collision_key(entry.name) == wanted:
                if is_internal(entry.name):
                    raise TopicExists(name, entry.name)
                try:
                    self.live(entry.name)
                except UnknownTopic:
                    continue
                raise TopicExists(name, entry.name)


def _new_topic(name: str, partitions: int, config: TopicConfig) -> NewTopic:
    return NewTopic(name, uuid.uuid4().hex, str(uuid.uuid4()), partitions, config)


def _new_producers() -> NewTopic:
    fresh = _new_topic(PRODUCERS_TABLE, 1, TopicConfig.of({}))
    return replace(fresh, schema=PRODUCERS_SCHEMA, partitioned=False)


def _new_ledger(table: LedgerTable) -> NewTopic:
    fresh = _new_topic(table.name, 1, TopicConfig.of(_LEDGER_CONFIG))
    return replace(fresh, schema=table.schema, partitioned=False, also=ledger_properties(table))


def _row_format(name: str, snapshot: Snapshot) -> RowFormat:
    if name == PRODUCERS_TABLE:
        return ProducerRows()
    if is_internal(name) and snapshot.metadata is not None:
        return LedgerRows(ledger_of(name, snapshot.metadata.schema, snapshot.configuration))
    return TopicRows()


def _load(table: Table) -> bool:
    try:
        return table.load()
    except Corruption as error:
        raise TopicClosed(table.name, str(error), "see what `lakelog repair --dry-run` would do") from error
