"""A bucket as a store, by obstore: put-if-absent by a conditional PUT; an unknown outcome is settled or reported.

    an answer that is lost, late, or 5xx     put again: both tries together make at most one object
    the name is taken after that             read it: it may be from the first try
    still unknown at the deadline            read it; if nothing is there yet, OutcomeUnknown: it may arrive late

So the content of a created blob must be unique to its writer. A blob that is deleted while open cannot be read on.
"""

from __future__ import annotations

import random
import threading
import time
import uuid
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain
from typing import Any, Final, TypeVar

import obstore
import pyarrow as pa
from obstore.exceptions import BaseError

from delta_log.model.errors import LakelogError, OutcomeUnknown, StorageRefused
from delta_log.model.store_location import Location
from delta_log.stores.object_connection import FIRST_PAUSE_S, LONGEST_PAUSE_S, connect
from delta_log.stores.object_errors import Answer, meaning_of, reason_of
from delta_log.stores.object_reading import PIECE, RangedFile
from delta_log.stores.object_writing import CountedParts
from delta_log.stores.protocol import Blob, Entry

#: Deadline for retries of a request whose outcome is unknown.
PATIENCE_S: Final = 30.0
#: Larger blobs are uploaded in parts of this size, and this many at once.
_PART: Final = 8 * 1024 * 1024
_PARTS_AT_ONCE: Final = 4
_DELETED_AT_ONCE: Final = 500
_AWAY_S: Final = 5.0
_CLOCK_FOR_S: Final = 60.0
#: A clock that includes the time of a machine's sleep, if the system has one.
_STEADY: Final = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
T = TypeVar("T")
_FAILURES: Final = (BaseError, OSError, ValueError)


class ObjectStore:
    """Store of everything below one URL; thread-safe."""

    def __init__(self, url: str, options: Mapping[str, str] | None = None, *, patience_s: float = PATIENCE_S) -> None:
        scheme, _, rest = url.partition("://")
        self.bucket = rest.partition("/")[0]
        self._location = Location(url.rstrip("/"), options)
        self._patience_s = patience_s
        #: retries by itself; for uploads in parts
        self._store = connect(scheme, self._location, options or {}, retries=8, retry_s=patience_s)
        self._once = connect(scheme, self._location, options or {}, retries=0, retry_s=patience_s)
        self._clock_lock = threading.Lock()
        self._clock: tuple[float, int] | None = None

    @property
    def location(self) -> Location:
        return self._location

    def create(self, path: str, data: Blob) -> bool:
        blob = _contiguous(data)
        began = time.monotonic()
        doubt: Exception | None = None
        unsent: Exception | None = None
        for _ in self._tries():
            try:
                obstore.put(self._once, path, blob, mode="create", use_multipart=False)
            except _FAILURES as error:
                answer = meaning_of(error)
                if answer is Answer.REFUSED and doubt is None:
                    raise self._refused(path, error) from error
                if answer is Answer.TAKEN and doubt is None:
                    return False
                if answer in (Answer.TAKEN, Answer.CONTENDED):
                    found = self._whose(path, blob, ours=doubt is not None)
                    if found is not None:
                        return found
                unsent = error if answer is Answer.UNSENT else unsent
                doubt = error if answer in (Answer.UNKNOWN, Answer.REFUSED) else doubt
                if doubt is None and self._is_away(answer, began):
                    break
            else:
                return True
        if doubt is not None:
            return self._settle_doubt(path, blob, doubt)
        raise self._refused(path, unsent or StorageRefused(path, "others are writing there all the time"))

    def put(self, path: str, data: Blob) -> None:
        with self._writing(path):
            obstore.put(self._store, path, _contiguous(data), chunk_size=_PART, max_concurrency=_PARTS_AT_ONCE)

    def put_parts(self, path: str, parts: Iterable[Blob]) -> int:
        """Upload a small blob at once, a larger one in parts, of which only a few are in memory."""
        source, held, size = iter(parts), list[bytes](), 0
        for part in source:
            held.append(bytes(memoryview(part)))
            size += len(held[-1])
            if size > _PART:
                break
        else:
            self.put(path, b"".join(held))
            return size
        counted = CountedParts(chain([b"".join(held)], source))
        held.clear()
        with self._writing(path, counted):
            obstore.put(self._store, path, iter(counted), chunk_size=_PART, max_concurrency=_PARTS_AT_ONCE)
        return counted.size

    def read(self, path: str) -> bytes:
        with self._reading(path):
            return self._ask(lambda: bytes(obstore.get(self._once, path).bytes()))

    def open_input(self, path: str) -> pa.NativeFile:
        """Open a blob: a small one is read whole; a larger one by range requests, bound to this version of it."""

        def begin() -> tuple[Any, bytes]:
            found = obstore.get(self._once, path, options={"range": (0, PIECE)})
            return found.meta, bytes(found.bytes())

        with self._reading(path):
            try:
                meta, first = self._ask(begin)
            except _FAILURES as error:
                if meaning_of(error) is not Answer.OUT_OF_RANGE:
                    raise
                return pa.BufferReader(b"")
        size, tag = meta["size"], meta["e_tag"]
        if len(first) >= size:
            return pa.BufferReader(first)

        def get(start: int, end: int) -> bytes:
            with self._reading(path):
                options: Any = {"range": (start, end)} | ({"if_match": tag} if tag else {})
                return self._ask(lambda: bytes(obstore.get(self._once, path, options=options).bytes()))

        return pa.PythonFile(RangedFile(get, size, first), mode="r")

    def stat(self, path: str) -> Entry | None:
        try:
            with self._reading(path):
                found = self._ask(lambda: obstore.head(self._once, path))
        except FileNotFoundError:
            return None
        return _entry(found)

    def list(self, directory: str) -> list[Entry]:
        with self._reading(directory or "the root"):
            found = self._ask(lambda: obstore.list_with_delimiter(self._once, directory.rstrip("/") or None))
        entries = [Entry(path.rstrip("/").rpartition("/")[2], 0, 0, True) for path in found["common_prefixes"]]  # noqa: FBT003
        return sorted([*entries, *map(_entry, found["objects"])], key=lambda entry: entry.name)

    def settle(self, directory: str) -> None:
        """Do nothing: objects that the store lists are durable."""

    def delete(self, path: str) -> None:
        self.delete_all([path])

    def delete_all(self, paths: Sequence[str]) -> None:
        for at in range(0, len(paths), _DELETED_AT_ONCE):
            self._delete(paths[at : at + _DELETED_AT_ONCE])

    def delete_directory(self, directory: str) -> None:
        """Delete in batches; a table's checkpoints last, so that after a crash midway it can still be loaded."""
        with self._reading(directory):
            below = directory.rstrip("/") + "/"
            paths = self._ask(lambda: sorted(each["path"] for some in obstore.list(self._once, below) for each in some))
        self.delete_all(sorted(paths, key=_leaving))

    def now_ms(self) -> int:
        """The store's time, requested once a minute and extrapolated; in whole seconds, as stores report it."""
        with self._clock_lock:
            steady = time.clock_gettime(_STEADY)
            if self._clock is None or steady - self._clock[0] > _CLOCK_FOR_S:
                told = self._ask_for_time()
                before = self._counted_on(steady)
                self._clock = (steady, told if before is None else max(told, min(before, told + 1000)))
            return self._counted_on(steady) or 0

    def _counted_on(self, steady: float) -> int | None:
        return None if self._clock is None else self._clock[1] + int((steady - self._clock[0]) * 1000)

    def _ask_for_time(self) -> int:
        path = f"journal/staging/clock-{uuid.uuid4().hex}"
        self.put(path, b"")
        try:
            found = self.stat(path)
            if found is None:
                raise StorageRefused("the clock of the store", "what was just written is not there")
            return found.modified_ms
        finally:
            self.delete(path)

    def _whose(self, path: str, blob: Blob, *, ours: bool) -> bool | None:
        """True if the object there is from an earlier try of this call; None if there is none."""
        try:
            return ours and self.read(path) == bytes(memoryview(blob))
        except FileNotFoundError:
            return None
        except StorageRefused as error:
            raise OutcomeUnknown(path, error.why) from error

    def _settle_doubt(self, path: str, blob: Blob, doubt: Exception) -> bool:
        found = self._whose(path, blob, ours=True)
        if found is None:
            raise OutcomeUnknown(path, reason_of(doubt, self.bucket)) from doubt
        return found

    def _delete(self, paths: Sequence[str]) -> None:
        with self._writing(paths[0]):
            try:
                self._ask(lambda: obstore.delete(self._once, paths))
            except FileNotFoundError as error:
                if meaning_of(error) is not Answer.ABSENT:
                    raise

    def _ask(self, request: Callable[[], T]) -> T:
        """Retry an idempotent request until there is an answer or the deadline passes."""
        began = time.monotonic()
        last: Exception | None = None
        for _ in self._tries():
            try:
                return request()
            except _FAILURES as error:
                last, answer = error, meaning_of(error)
                if answer not in (Answer.UNKNOWN, Answer.UNSENT) or self._is_away(answer, began):
                    raise
        raise last or StorageRefused("a request", "there was no time for it")

    def _is_away(self, answer: Answer, began: float) -> bool:
        """True if the store has accepted no connection for so long that it is not just busy."""
        return answer is Answer.UNSENT and time.monotonic() - began > _AWAY_S

    def _tries(self) -> Iterator[int]:
        """Count tries until the deadline, with growing pauses."""
        deadline = time.monotonic() + self._patience_s
        pause = FIRST_PAUSE_S
        number = 0
        while True:
            yield number
            number += 1
            wait = pause * random.uniform(0.5, 1.0)  # noqa: S311 - so that two colliding writers do not collide again
            if time.monotonic() + wait > deadline:
                return
            time.sleep(wait)
            pause = min(2 * pause, LONGEST_PAUSE_S)

    @contextmanager
    def _reading(self, path: str) -> Generator[None]:
        try:
            yield
        except _FAILURES as error:
            if meaning_of(error) in (Answer.ABSENT, Answer.CHANGED):
                raise FileNotFoundError(path) from error
            raise self._refused(path, error) from error

    @contextmanager
    def _writing(self, path: str, source: CountedParts | None = None) -> Generator[None]:
        try:
            yield
        except BaseException as error:
            if source is not None and source.failed is not None:
                raise source.failed from None
            if not isinstance(error, _FAILURES):
                raise
            if meaning_of(error) in (Answer.UNKNOWN, Answer.CONTENDED):
                raise OutcomeUnknown(path, reason_of(error, self.bucket)) from error
            raise self._refused(path, error) from error

    def _refused(self, path: str, error: Exception) -> LakelogError:
        if isinstance(error, LakelogError):
            return error
        return StorageRefused(f"{path} in {self._location}", reason_of(error, self.bucket))


def _leaving(path: str) -> tuple[bool, bool, str]:
    """Sort key for the order in which a table's files are deleted."""
    parent, _, name = path.rpartition("/")
    return parent.endswith("_delta_log"), "checkpoint" in name, path


def _entry(found: Any) -> Entry:
    modified_ms = int(found["last_modified"].timestamp() * 1000)
    return Entry(found["path"].rpartition("/")[2], found["size"], modified_ms)


def _contiguous(data: Blob) -> bytes | memoryview:
    return data if isinstance(data, bytes) else memoryview(data).cast("B")
