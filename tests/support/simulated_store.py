"""The surroundings of a simulated log: a store that fails, and one thread in which everything happens.

It asks its world what is to happen at each call, and knows nothing of what the world is about.
"""

from __future__ import annotations

import random
import uuid
from collections.abc import Callable, Generator, Iterable, Sequence
from concurrent.futures import Future
from contextlib import ExitStack, contextmanager
from typing import Any, Protocol
from unittest import mock

import pyarrow as pa

from delta_log.commit.commit_scheduler import CommitScheduler
from delta_log.maintenance import background as upkeep
from delta_log.maintenance import history as housekeeping
from delta_log.model.errors import OutcomeUnknown, StorageRefused
from delta_log.root.root import ObjectRoot
from delta_log.stores import Entry, MemoryStore
from delta_log.stores.protocol import Blob


class Fate(Protocol):
    """Who decides."""

    chance: random.Random
    now_ms: int

    def note(self, *what: object) -> None: ...

    def fails(self) -> bool: ...

    def interrupt(self) -> None:
        """Whoever makes this call may be suspended in it, while others go on."""
        ...


class Here:
    """An executor that does it at once."""

    def __init__(self, *_: Any, **__: Any) -> None:
        pass

    def submit(self, call: Callable[..., Any], *arguments: Any) -> Future[Any]:
        done: Future[Any] = Future()
        try:
            done.set_result(call(*arguments))
        except Exception as error:  # noqa: BLE001 - an executor keeps whatever it is for who asks
            done.set_exception(error)
        return done

    def shutdown(self, *_: Any, **__: Any) -> None:
        pass


class WeakStore(MemoryStore):
    """Loses requests and answers, brings some late, and has the world go on in the middle of a call."""

    def __init__(self, world: Fate) -> None:
        super().__init__()
        self.world = world
        self.late: list[Callable[[], object]] = []

    def now_ms(self) -> int:
        return self.world.now_ms

    def create(self, path: str, data: Blob) -> bool:
        return self._change("create", path, lambda: MemoryStore.create(self, path, data))

    def put(self, path: str, data: Blob) -> None:
        self._change("put", path, lambda: MemoryStore.put(self, path, data))

    def put_parts(self, path: str, parts: Iterable[Blob]) -> int:
        data = b"".join(bytes(memoryview(part)) for part in parts)
        self.put(path, data)
        return len(data)

    def read(self, path: str) -> bytes:
        return self._ask("read", path, lambda: MemoryStore.read(self, path))

    def open_input(self, path: str) -> pa.NativeFile:
        return self._ask("open", path, lambda: MemoryStore.open_input(self, path))

    def stat(self, path: str) -> Entry | None:
        return self._ask("stat", path, lambda: MemoryStore.stat(self, path))

    def list(self, directory: str) -> list[Entry]:
        return self._ask("list", directory, lambda: MemoryStore.list(self, directory))

    def delete(self, path: str) -> None:
        self._change("delete", path, lambda: MemoryStore.delete(self, path))

    def delete_all(self, paths: Sequence[str]) -> None:
        for path in paths:
            self.delete(path)

    def _ask(self, what: str, path: str, call: Callable[[], Any]) -> Any:
        self.world.note(what, path)
        self.world.interrupt()
        if self.world.fails():
            raise StorageRefused(path, "the simulation says so")
        return call()

    def _change(self, what: str, path: str, call: Callable[[], Any]) -> Any:
        self.world.note(what, path)
        self.world.interrupt()
        fault = self.world.chance.choice(["refused", "request", "answer", "late"]) if self.world.fails() else ""
        if fault == "refused":
            raise StorageRefused(path, "the simulation says so")
        answer = call() if fault in ("", "answer") else None
        if fault == "late":
            self.late.append(call)
        if fault:
            raise OutcomeUnknown(path, f"{fault} lost")
        self.world.interrupt()
        return answer

    def deliver(self) -> None:
        """One of the requests that were on their way."""
        if self.late:
            self.late.pop(self.world.chance.randrange(len(self.late)))()


class BucketRoot(ObjectRoot):
    """Of which it is known that it keeps put-if-absent."""

    def hold(self) -> None:
        """Nobody can be kept out."""


@contextmanager
def alone_with(seed: int) -> Generator[None]:
    """No thread, no clock and no chance but those of the simulation."""
    names = random.Random(seed ^ 0x5EED)

    def named() -> uuid.UUID:
        return uuid.UUID(int=names.getrandbits(128), version=4)

    with ExitStack() as patches:
        patches.callback(pa.set_cpu_count, pa.cpu_count())
        pa.set_cpu_count(1)
        for module in ("startup.open", "append.group_commit", "commit.commit_scheduler", "journal.objects"):
            patches.enter_context(mock.patch(f"delta_log.{module}.ThreadPoolExecutor", Here))
        patches.enter_context(mock.patch.object(CommitScheduler, "start"))
        patches.enter_context(mock.patch("uuid.uuid4", named))
        patches.enter_context(mock.patch("secrets.randbits", names.getrandbits))
        patches.enter_context(mock.patch.object(housekeeping, "CHECKPOINT_EVERY", 8))
        patches.enter_context(mock.patch.multiple(upkeep, FOLLOW_EVERY_S=0.0, CLEAN_EVERY_S=0.0))
        yield
