"""Reading a log: what a process that owns the root and one that only looks at it have in common."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from delta_log.delta.snapshot import files_below, files_from
from delta_log.delta.time_travel import plan_version, versions_in
from delta_log.fetch.deferred_rows import PartialFetch
from delta_log.fetch.fetch import Reader
from delta_log.fetch.fetch_result import NO_LIMIT, Fetched, FetchLimits
from delta_log.model.errors import Closed, InvalidRequest, LakelogError, ReadOnly, UnknownPartition, UnknownTopic
from delta_log.model.names import is_internal
from delta_log.model.schema import FILE_SCHEMA, RECORD_COLUMNS
from delta_log.model.store_location import Location, options_of
from delta_log.model.types import DataFile, PartitionOffsets
from delta_log.root.root import Root, RootInfo, as_root, open_root
from delta_log.runtime.clock import wall_clock_ms
from delta_log.runtime.syscalls import no_probe
from delta_log.topics.catalog import Catalog, TopicInfo
from delta_log.topics.partition_state import PayloadReader, Waiter
from delta_log.topics.topic_state import TopicState

DEFAULT_BYTES: Final = 8 * 1024 * 1024
_LOOK_EVERY_S: Final = 1.0


class Reading:
    """The read operations, common to the owner of the root and to readers."""

    def __init__(self, root: Root, catalog: Catalog, journal: PayloadReader) -> None:
        self._root = root
        self._catalog = catalog
        self._reader = Reader(journal, self._follow)
        self._closed = False

    @property
    def location(self) -> str:
        """The root's location in the form that Delta readers accept."""
        return self._root.store.location

    def table_location(self, name: str) -> str:
        """The location of the Delta table of a topic, or of an internal table."""
        return Location(self.location, options_of(self.location)).below(self.table_directory(name))

    def table_directory(self, name: str) -> str:
        """The table's directory, relative to the root."""
        live = self._live(name) if not is_internal(name) else self._catalog.find(name)
        if live is None:
            raise UnknownTopic(name)
        return live.table.directory

    def table_version(self, name: str, at: int | datetime) -> int:
        """The version that a table had at a time, or the given version; OutsideHistory if it can no longer be read."""
        directory = self.table_directory(name)
        live = self._catalog.find(name)
        if live is None:
            raise UnknownTopic(name)
        entries = self._root.store.list(f"{directory}/_delta_log")
        versions = versions_in({entry.name: entry.modified_ms for entry in entries})
        return plan_version(name, versions, at, live.config, wall_clock_ms())

    def topics(self) -> list[str]:
        """Names of all topics, including closed ones."""
        self._check_open()
        return [name for name in self._catalog.names() if self._is_there(name)]

    def describe_topic(self, topic: str) -> TopicInfo:
        return self._catalog.describe(self._live(topic).name)

    def offsets(self, topic: str, partition: int) -> PartitionOffsets:
        """The range of readable offsets: all records below the end are durable and visible."""
        tail = self._partition(topic, partition).tails[partition]
        return PartitionOffsets(tail.log_start_offset, tail.high_watermark)

    def offset_at(self, topic: str, partition: int, timestamp_ms: int) -> int | None:
        """The earliest offset whose timestamp is at or after the given one; None when there is none."""
        return self._reader.first_at(self._partition(topic, partition), partition, timestamp_ms)

    def read(
        self,
        topic: str,
        partition: int,
        offset: int,
        *,
        max_records: int = NO_LIMIT,
        max_bytes: int = DEFAULT_BYTES,
        wait_s: float = 0.0,
        columns: Sequence[str] = RECORD_COLUMNS,
    ) -> Fetched:
        """Records from `offset` on, at least one if there is any; at the end, wait up to `wait_s` for the next."""
        live = self._partition(topic, partition)
        if wait_s > 0 and live.tails[partition].high_watermark == offset:
            self.wait(topic, partition, offset, wait_s)
            live = self._partition(topic, partition)
        return self._reader.fetch(
            live, partition, offset, FetchLimits(max(1, max_records), max_bytes), _chosen(columns)
        )

    def begin_read(
        self, topic: str, partition: int, offset: int, *, max_records: int = NO_LIMIT, max_bytes: int = DEFAULT_BYTES
    ) -> PartialFetch:
        """Read like `read`, without waiting; most of a large response is decoded on demand."""
        live = self._partition(topic, partition)
        return self._reader.begin(live, partition, offset, FetchLimits(max(1, max_records), max_bytes))

    def scan(self, topic: str, partition: int, start: int = 0, end: int | None = None) -> Iterator[Fetched]:
        """Read from `start` (or the log start if higher) to `end` (or the present end if lower), piece by piece."""
        known = self.offsets(topic, partition)
        position = max(start, known.log_start_offset)
        stop = known.end_offset if end is None else min(end, known.end_offset)
        limits = FetchLimits(bytes=DEFAULT_BYTES, below=stop)
        while position < stop:
            fetched = self._reader.fetch(self._partition(topic, partition), partition, position, limits)
            if fetched.count:
                yield fetched
            position = fetched.next_offset

    def files(self, topic: str, partition: int, start: int = 0, end: int = NO_LIMIT) -> list[DataFile]:
        """The table's data files with offsets from `start` to below `end`, in order."""
        files = self._partition(topic, partition).table.snapshot.files(partition)
        return list(files_from(files_below(files, end), start))

    def wait(self, topic: str, partition: int, offset: int, timeout_s: float) -> bool:
        """Wait until a record at or after `offset` is visible; False on timeout."""
        woken = threading.Event()
        waiter = Waiter(offset, woken.set)
        tail = self._partition(topic, partition).tails[partition]
        if not tail.wait(waiter):
            return True
        try:
            return woken.wait(timeout_s) and tail.high_watermark > offset
        finally:
            tail.stop_waiting(waiter)

    def close(self) -> bool:
        self._closed = True
        return True

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _live(self, topic: str) -> TopicState:
        self._check_open()
        self._look(self._catalog.live(topic))
        return self._catalog.live(topic)

    def _is_there(self, topic: str) -> bool:
        try:
            self._live(topic)
        except UnknownTopic:
            return False
        except LakelogError:
            return True
        return True

    def _partition(self, topic: str, partition: int) -> TopicState:
        live = self._live(topic)
        if type(partition) is not int or not 0 <= partition < live.partitions:
            raise UnknownPartition(topic, partition, live.partitions)
        return live

    def _look(self, live: TopicState) -> None:
        """Follow the table about once a second: a reader gets no notice of new commits."""
        if time.monotonic() - live.last_follow >= _LOOK_EVERY_S:
            self._follow(live)

    def _follow(self, live: TopicState) -> None:
        self._catalog.follow(live)

    def _check_open(self) -> None:
        if self._closed:
            raise Closed


class LogReader(Reading):
    """A reader of a root that another process may own; it sees the last commits of the tables."""

    _info: RootInfo

    @classmethod
    def open(
        cls,
        root: str | Path | Root,
        *,
        topic_defaults: Mapping[str, object] | None = None,
        store_options: Mapping[str, str] | None = None,
    ) -> Self:
        """Open a root for reading. Takes no lock and writes nothing."""
        place = as_root(root, store_options=store_options)
        info = open_root(place, create=False)
        defaults = topic_defaults or {}
        catalog = Catalog(place.store, epoch=None, server_defaults=defaults, clock_ms=_no_clock, probe=no_probe)
        reader = cls(place, catalog, _NoJournal())
        reader._info = info
        return reader

    @property
    def cluster_id(self) -> str:
        """The id that the root got at its creation."""
        return self._info.cluster_id

    def wait(self, topic: str, partition: int, offset: int, timeout_s: float) -> bool:
        """Wait like an owner, but up to a second late: a reader is not woken, so it polls."""
        deadline = time.monotonic() + timeout_s
        while not super().wait(topic, partition, offset, min(timeout_s, _LOOK_EVERY_S)):
            timeout_s = deadline - time.monotonic()
            if timeout_s <= 0:
                return False
        return True


def _chosen(columns: Sequence[str]) -> tuple[str, ...]:
    """The requested columns, each once, after the offset."""
    unknown = sorted(set(columns) - set(FILE_SCHEMA.names))
    if unknown:
        raise InvalidRequest(f"there are no columns {unknown}: a record has {', '.join(FILE_SCHEMA.names)}")
    return tuple(dict.fromkeys(("offset", *columns)))


def _no_clock() -> int:
    raise ReadOnly


class _NoJournal:
    """An absent journal: a reader sees only the tables."""

    def read(self, place: object) -> bytes:
        raise FileNotFoundError(f"no journal is read here ({place})")
