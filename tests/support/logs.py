"""Logs for tests: on a disk or in memory, with a clock to turn, a store that fails on command, and a power switch."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal
from unittest import mock

import pyarrow as pa

from delta_log import Log, LogReader, Settings
from delta_log.fetch.fetch_result import ConsumedRecord
from delta_log.maintenance import background as upkeep
from delta_log.model.errors import OutcomeUnknown, StorageRefused
from delta_log.root.root import LocalRoot, MemoryRoot, ObjectRoot, Root
from delta_log.stores import Entry, Store
from delta_log.stores.protocol import Blob

NOW = 1_800_000_000_000
QUIET = Settings(upkeep=False, max_block_s=0.0, producer_wait_s=0.0)
FROM_FILES = Settings(upkeep=False, max_block_s=0.0, tail_bytes=0)
DEADLINE_S = 40.0


def replace_settings(**changes: Any) -> Settings:
    """QUIET, but for these."""
    return replace(QUIET, **changes)


class Clock:
    """Stands still until it is turned."""

    def __init__(self, now_ms: int = NOW) -> None:
        self.now_ms = now_ms

    def __call__(self) -> int:
        return self.now_ms

    def turn(self, milliseconds: int) -> None:
        self.now_ms += milliseconds


@dataclass
class Fault:
    """What happens to the next `times` calls of `operation` on a path that contains `part`."""

    operation: str
    part: str
    what: Literal["refused", "request lost", "answer lost", "missing"]
    times: int = 1


@dataclass
class TestStore:
    """Any store, with a clock of ours and faults on command."""

    __test__ = False

    inner: Store
    clock: Callable[[], int]
    faults: list[Fault] = field(default_factory=list)
    calls: list[tuple[str, str]] = field(default_factory=list)

    @property
    def location(self) -> str:
        return self.inner.location

    def create(self, path: str, data: Blob) -> bool:
        return self._do("create", path, lambda: self.inner.create(path, data))

    def put(self, path: str, data: Blob) -> None:
        self._do("put", path, lambda: self.inner.put(path, data))

    def put_parts(self, path: str, parts: Iterable[Blob]) -> int:
        return self._do("put", path, lambda: self.inner.put_parts(path, parts))

    def read(self, path: str) -> bytes:
        return self._do("read", path, lambda: self.inner.read(path))

    def open_input(self, path: str) -> pa.NativeFile:
        return self._do("open_input", path, lambda: self.inner.open_input(path))

    def stat(self, path: str) -> Entry | None:
        return self.inner.stat(path)

    def list(self, directory: str) -> list[Entry]:
        return self.inner.list(directory)

    def settle(self, directory: str) -> None:
        self.inner.settle(directory)

    def delete(self, path: str) -> None:
        self.inner.delete(path)

    def delete_all(self, paths: Sequence[str]) -> None:
        self.inner.delete_all(paths)

    def delete_directory(self, directory: str) -> None:
        self.inner.delete_directory(directory)

    def now_ms(self) -> int:
        return self.clock()

    def _do(self, operation: str, path: str, call: Callable[[], Any]) -> Any:
        self.calls.append((operation, path))
        fault = next((f for f in self.faults if f.operation == operation and f.part in path and f.times), None)
        if fault is None:
            return call()
        fault.times -= 1
        if fault.what == "refused":
            raise StorageRefused(path, "a test")
        if fault.what == "missing":
            raise FileNotFoundError(path)
        if fault.what == "answer lost":
            with suppress(FileNotFoundError):
                call()
        raise OutcomeUnknown(path, "a test")


class Place:
    """One root over several lives of a log."""

    def __init__(
        self,
        path: Path | None,
        clock: Clock | None = None,
        *,
        segment_size: int = 256 * 1024,
        store: Store | None = None,
    ) -> None:
        """In a bucket, where a store is given."""
        self.path = path
        self.objects = store
        self.segment_size = segment_size
        self.clock = clock or Clock()
        self.faults: list[Fault] = []
        self.log: Log | None = None
        self._memory = MemoryRoot() if path is None and store is None else None
        self._memory_store = self._memory.store if self._memory is not None else None

    def root(self) -> Root:
        if self._memory is not None and self._memory_store is not None:
            self._memory._store = self._store(self._memory_store)
            return self._memory
        if self.objects is not None:
            return ObjectRoot(self._store(self.objects), linger_ms=0)
        if self.path is None:
            raise ValueError("a root lies in memory or at a path")
        root = LocalRoot(self.path, segment_size=self.segment_size)
        root._store = self._store(root.store)
        return root

    def open(self, settings: Settings = QUIET) -> Log:
        self.log = Log.open(self.root(), settings=settings, clock_ms=self.clock)
        return self.log

    def reader(self) -> LogReader:
        return LogReader.open(self.root())

    def crash(self) -> None:
        """The power goes: nothing is brought to the tables, nothing is tidied up; only our threads are stopped."""
        if self.log is not None:
            crash(self.log)
            self.log = None

    def close(self) -> None:
        if self.log is not None:
            self.faults.clear()
            self.log.close()
            self.log = None

    def fail(
        self,
        operation: str,
        part: str,
        what: Literal["refused", "request lost", "answer lost", "missing"],
        times: int = 1,
    ) -> Fault:
        fault = Fault(operation, part, what, times)
        self.faults.append(fault)
        return fault

    def _store(self, inner: Store) -> Any:
        return TestStore(inner, self.clock, self.faults)


def crash(log: Log) -> None:
    running = log._running
    log._closed = True
    if log._transactions is not None:
        log._transactions.close()  # files without a name, which the system takes back
    if running.ballast is not None:
        running.ballast.stop()
    running.upkeep.stop()
    running.tabler.stop([])
    running.owning.shutdown(wait=True)
    running.writer.syncing.shutdown(wait=True)
    running.encoders.shutdown(wait=True)
    running.journal.close(empty=False)
    running.root.let_go()


def hold_tables(log: Log) -> None:
    """Nothing is brought to the tables from now on, but by `flush`; what is under way ends before."""
    tabler = log._running.tabler
    with tabler._wake:
        tabler._schedule = lambda _live, _at: None  # type: ignore[method-assign]
        tabler._due.clear()
    eventually(lambda: not tabler._running, "the end of the commits that are under way")


def fold_producers(log: Log) -> None:
    """Fold the table of producers, however few files it has."""
    live = log._running.catalog.producers(create=False)
    assert live is not None
    log._running.tabler.bring_up(live)
    with mock.patch.object(upkeep, "_PRODUCER_FILES", 0):
        log._running.upkeep.fold(live)


def everything(log: Log | LogReader, topic: str, partition: int = 0) -> list[ConsumedRecord]:
    """All records of a partition."""
    return [record for fetched in log.scan(topic, partition) for record in fetched.records()]


def offsets_of(records: Sequence[ConsumedRecord]) -> list[int]:
    return [record.offset for record in records]


def values_of(log: Log | LogReader, topic: str, partition: int = 0) -> list[bytes | None]:
    return [record.value for record in everything(log, topic, partition)]


def eventually(condition: Callable[[], object], what: str = "it") -> None:
    """Wait for a condition that another thread brings about; fail when it does not."""
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline, f"{what} did not come true"
        time.sleep(0.002)


def our_threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name.startswith("lakelog-")]


@contextmanager
def no_thread_left() -> Generator[None]:
    """What begins within ends within; what others left behind is told once, where it was."""
    before = our_threads()
    yield
    eventually(lambda: all(each in before for each in our_threads()), "the end of every thread")


def damage_next_commit(place: Place, log: Log, topic: str) -> None:
    """Half a log entry, as no writer of ours leaves it."""
    version = log._running.catalog.live(topic).table.snapshot.version + 1
    place.root().store.put(f"topics/{topic}/_delta_log/{version:020d}.json", b'{"commitInfo":')
