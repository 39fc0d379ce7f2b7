"""A disk that does everything for real but for the syncs, and writes down each step, so that the power can be cut.

What the steps mean for a power cut is the business of `tests.support.powercut`.
"""

from __future__ import annotations

import itertools
import os
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from delta_log.runtime.syscalls import Disk

ROOT = 0


class Killed(BaseException):
    """The process is gone: nothing that it still wants to do happens."""


@dataclass(frozen=True)
class Enter:
    """A name for a file or directory, in place of what may have had it."""

    directory: int
    name: str
    node: int
    is_directory: bool = False


@dataclass(frozen=True)
class Leave:
    directory: int
    name: str


@dataclass(frozen=True)
class Move:
    """Another name in the same directory: at no moment both, at no moment none."""

    directory: int
    name: str
    new: str


@dataclass(frozen=True)
class Write:
    node: int
    position: int
    data: bytes


@dataclass(frozen=True)
class Cut:
    node: int
    length: int


@dataclass(frozen=True)
class Sync:
    """Of a file's content, or of a directory's names."""

    node: int


@dataclass(frozen=True)
class Drop:
    """A sync failed: what was not synced of the file is not on the disk and never will be, though readers see it."""

    node: int


Step = Enter | Leave | Move | Write | Cut | Sync | Drop


class RecordingDisk(Disk):
    """One step after the other, also of many threads. From step `kill_at` on it raises Killed instead."""

    def __init__(self, root: Path) -> None:
        self.root = root.absolute()
        self.steps: list[Step] = []
        self.kill_at: int | None = None
        self._lock = threading.RLock()
        self._nodes = itertools.count(ROOT + 1)
        self._open: dict[int, int] = {}
        self._names: dict[int, dict[str, int]] = {ROOT: {}}
        if self.root.exists():
            self._take_over(self.root, ROOT)

    def open(self, path: str, flags: int) -> int:
        with self._lock:
            self._check_alive()
            fresh = not Path(path).exists()
            fd = super().open(path, flags)
            if fresh:
                self._enter(path, next(self._nodes))
            directory, name = self._place(path)
            self._open[fd] = node = self._names[directory][name]
            if flags & os.O_TRUNC and not fresh:
                self.steps.append(Cut(node, 0))
            return fd

    def close(self, fd: int) -> None:
        with self._lock:
            self._open.pop(fd, None)
            super().close(fd)

    def write(self, fd: int, data: bytes | memoryview, position: int) -> None:
        with self._lock:
            self._check_alive()
            super().write(fd, data, position)
            self.steps.append(Write(self._open[fd], position, bytes(memoryview(data))))

    def write_all(self, fd: int, parts: Sequence[bytes | memoryview], position: int) -> None:
        self.write(fd, b"".join(parts), position)

    def truncate(self, fd: int, length: int) -> None:
        with self._lock:
            self._check_alive()
            super().truncate(fd, length)
            self.steps.append(Cut(self._open[fd], length))

    def sync(self, fd: int) -> None:
        with self._lock:
            self._check_alive()
            self.steps.append(Sync(self._open[fd]))

    def sync_data(self, fd: int) -> None:
        self.sync(fd)

    def link(self, source: str, target: str) -> None:
        with self._lock:
            self._check_alive()
            super().link(source, target)
            directory, name = self._place(source)
            self._enter(target, self._names[directory][name])

    def rename(self, source: str, target: str) -> None:
        with self._lock:
            self._check_alive()
            super().rename(source, target)
            directory, name = self._place(source)
            other, new = self._place(target)
            node = self._names[directory].pop(name)
            self._names[other][new] = node
            if directory == other:
                self.steps.append(Move(directory, name, new))
            else:
                self.steps += [Enter(other, new, node, node in self._names), Leave(directory, name)]

    def unlink(self, path: str) -> None:
        with self._lock:
            self._check_alive()
            super().unlink(path)
            directory, name = self._place(path)
            self._names[directory].pop(name, None)
            self.steps.append(Leave(directory, name))

    def make_directory(self, path: str) -> None:
        with self._lock:
            self._check_alive()
            super().make_directory(path)
            if Path(path) != self.root:
                node = next(self._nodes)
                self._names[node] = {}
                self._enter(path, node)

    def remove_directory(self, path: str) -> None:
        with self._lock:
            self._check_alive()
            super().remove_directory(path)
            directory, name = self._place(path)
            self._names[directory].pop(name)
            self.steps.append(Leave(directory, name))

    def sync_directory(self, path: str) -> None:
        with self._lock:
            self._check_alive()
            if self.root in (Path(path), *Path(path).parents):
                self.steps.append(Sync(self._node(Path(path))))

    def _check_alive(self) -> None:
        if self.kill_at is not None and len(self.steps) >= self.kill_at:
            raise Killed

    def _enter(self, path: str, node: int) -> None:
        directory, name = self._place(path)
        self._names[directory][name] = node
        self.steps.append(Enter(directory, name, node, node in self._names))

    def _node(self, path: Path) -> int:
        node = ROOT
        for part in path.relative_to(self.root).parts:
            node = self._names[node][part]
        return node

    def _place(self, path: str) -> tuple[int, str]:
        return self._node(Path(path).parent), Path(path).name

    def _take_over(self, directory: Path, node: int) -> None:
        """What lies there at the beginning is durable."""
        for path in sorted(directory.iterdir()):
            child = next(self._nodes)
            if path.is_dir():
                self._names[child] = {}
            self._enter(str(path), child)
            if path.is_dir():
                self._take_over(path, child)
            else:
                self.steps += [Write(child, 0, path.read_bytes()), Sync(child)]
        self.steps.append(Sync(node))
