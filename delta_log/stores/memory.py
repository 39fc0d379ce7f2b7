"""A dictionary as a store: for `serve --memory`, demonstrations, and fast tests of all layers above."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence

import pyarrow as pa

from delta_log.runtime.clock import wall_clock_ms
from delta_log.stores.protocol import Blob, Entry


class MemoryStore:
    """Store in memory, for the life of the object; several logs may open it one after the other."""

    def __init__(self, name: str = "memory") -> None:
        self._name = name
        self._blobs: dict[str, tuple[bytes, int]] = {}
        self._lock = threading.Lock()

    @property
    def location(self) -> str:
        return f"{self._name}://"

    def create(self, path: str, data: Blob) -> bool:
        with self._lock:
            if path in self._blobs:
                return False
            self._blobs[path] = (bytes(memoryview(data)), self.now_ms())
            return True

    def put(self, path: str, data: Blob) -> None:
        with self._lock:
            self._blobs[path] = (bytes(memoryview(data)), self.now_ms())

    def put_parts(self, path: str, parts: Iterable[Blob]) -> int:
        data = b"".join(bytes(memoryview(part)) for part in parts)
        self.put(path, data)
        return len(data)

    def read(self, path: str) -> bytes:
        return self._get(path)[0]

    def open_input(self, path: str) -> pa.NativeFile:
        return pa.BufferReader(self._get(path)[0])

    def stat(self, path: str) -> Entry | None:
        found = self._blobs.get(path)
        return None if found is None else Entry(path.rpartition("/")[2], len(found[0]), found[1])

    def list(self, directory: str) -> list[Entry]:
        prefix = directory.rstrip("/") + "/" if directory else ""
        entries: dict[str, Entry] = {}
        with self._lock:
            for path, (data, modified) in self._blobs.items():
                if path.startswith(prefix):
                    name, below, _ = path[len(prefix) :].partition("/")
                    entries[name] = Entry(name, 0 if below else len(data), modified, bool(below))
        return [entries[name] for name in sorted(entries)]

    def settle(self, directory: str) -> None:
        """Do nothing: names in memory need no sync."""

    def delete(self, path: str) -> None:
        with self._lock:
            self._blobs.pop(path, None)

    def delete_all(self, paths: Sequence[str]) -> None:
        for path in paths:
            self.delete(path)

    def delete_directory(self, directory: str) -> None:
        prefix = directory.rstrip("/") + "/"
        with self._lock:
            for path in [path for path in self._blobs if path.startswith(prefix)]:
                del self._blobs[path]

    def now_ms(self) -> int:
        return wall_clock_ms()

    def _get(self, path: str) -> tuple[bytes, int]:
        try:
            return self._blobs[path]
        except KeyError:
            raise FileNotFoundError(path) from None
