"""Takes, renews and releases the leases of a root: `leases/<name>/<number>.json`.

Errors are those of the store. It must not know which work a lease covers.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final, Self

import msgspec

from delta_log.maintenance.leases import Held, Lease, check_won, decide_taking, is_forgotten, plan_clearing
from delta_log.root.root import Root, as_root, open_root
from delta_log.stores import Store

__all__ = ["Grip", "Leases"]

LEASES: Final = "leases"


class Leases:
    """The leases of a root for one holder. `holder` must be unique to a process, also on one host."""

    def __init__(self, store: Store, holder: str) -> None:
        self._store = store
        self._holder = holder

    @classmethod
    def open(cls, place: str | Path | Root, holder: str) -> Self:
        """Open the leases of a root; NotARoot if there is none, because a lease does not create a root."""
        root = as_root(place)
        open_root(root, create=False)
        return cls(root.store, holder)

    def take(self, name: str, for_ms: int) -> Grip | Lease:
        """Take the lease for `for_ms`, or return the present holder's."""
        while True:
            number = max(_numbers(self._store, name), default=0)
            now_ms = self._store.now_ms()
            decided = decide_taking(number, _read(self._store, name, number), now_ms)
            if isinstance(decided, Held):
                return decided.lease
            grip = Grip(self._store, name, decided.number, self._holder)
            if grip.put_first(now_ms, for_ms):
                return grip

    def sweep(self) -> list[str]:
        """Delete the leases of names that have long been unused; returns the names."""
        now_ms = self._store.now_ms()
        gone: list[str] = []
        for directory in self._store.list(LEASES):
            number = max(_numbers(self._store, directory.name), default=0)
            entry = self._store.stat(_path(directory.name, number))
            written_ms = directory.modified_ms if entry is None else entry.modified_ms
            if is_forgotten(_read(self._store, directory.name, number), written_ms, now_ms):
                self._store.delete_directory(f"{LEASES}/{directory.name}")
                gone.append(directory.name)
        return gone


class Grip:
    """A lease held by this process."""

    def __init__(self, store: Store, name: str, number: int, holder: str) -> None:
        self._store = store
        self._name = name
        self._number = number
        self._holder = holder

    def put_first(self, now_ms: int, for_ms: int) -> bool:
        """Create the lease's file; True if this holder got the number and it is the highest."""
        path = _path(self._name, self._number)
        if not self._store.create(path, self._lease(now_ms, for_ms)):
            return False
        there = _numbers(self._store, self._name)
        if not check_won(self._number, there):
            self._store.delete(path)
            return False
        for number in plan_clearing(there, self._number):
            self._store.delete(_path(self._name, number))
        return True

    def renew(self, for_ms: int) -> bool:
        """Extend the lease to `for_ms` from now; False if another holder took over."""
        there = _numbers(self._store, self._name)
        newest = _read(self._store, self._name, self._number)
        if not check_won(self._number, there) or newest is None or newest.holder != self._holder:
            return False
        self._store.put(_path(self._name, self._number), self._lease(self._store.now_ms(), for_ms))
        return True

    def give_up(self) -> None:
        """Release the lease at once. The number stays taken, so that numbers only rise."""
        self.renew(0)

    def _lease(self, now_ms: int, for_ms: int) -> bytes:
        return msgspec.json.encode(Lease(self._holder, now_ms, now_ms + for_ms))


def _numbers(store: Store, name: str) -> list[int]:
    stems = (entry.name.removesuffix(".json") for entry in store.list(f"{LEASES}/{name}"))
    return [int(stem) for stem in stems if stem.isdecimal()]


def _read(store: Store, name: str, number: int) -> Lease | None:
    """Read a lease; None if it is missing or unreadable: then it does not count as held."""
    try:
        return msgspec.json.decode(store.read(_path(name, number)), type=Lease)
    except (FileNotFoundError, msgspec.DecodeError):
        return None


def _path(name: str, number: int) -> str:
    return f"{LEASES}/{name}/{number:010d}.json"
