"""One Delta table: load it, follow it, commit to it. The only place that retries a commit.

A commit is planned by a function of the snapshot that it will follow. When another commit was faster, the winner is
replayed and the plan made anew: a plan can so never be put on a table that it was not made for.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import msgspec

from delta_log.actions import Action, decode_commit, encode_commit
from delta_log.checkpoint import checkpoint_path, decode_checkpoint
from delta_log.conflicts import Identity, Kind, check_winner, commit_info, is_ours
from delta_log.disk import Probe, no_probe
from delta_log.errors import Corruption, LakelogError, OutcomeUnknown, TopicClosed
from delta_log.snapshot import Snapshot
from delta_log.stores import Store

_ATTEMPTS: Final = 100
_log = logging.getLogger(__name__)

Planner = Callable[[Snapshot], Sequence[Action] | None]


@dataclass(frozen=True, slots=True)
class Committed:
    version: int


@dataclass(frozen=True, slots=True)
class Conflicted:
    """Somebody else's commit has this version."""

    version: int


@dataclass(frozen=True, slots=True)
class Unknown:
    version: int
    cause: LakelogError


Outcome = Committed | Conflicted | Unknown


def entry_path(version: int) -> str:
    return f"_delta_log/{version:020d}.json"


class Table:
    """A table at `directory` of a store. `epoch` is the owner's; None for a job or a reader beside it."""

    def __init__(self, store: Store, directory: str, *, epoch: int | None = None, probe: Probe = no_probe) -> None:
        self.store = store
        self.directory = directory
        self.name = directory.rpartition("/")[2]
        self.epoch = epoch
        self.snapshot = Snapshot()
        self.checkpoint_version = -1
        self.lock = threading.RLock()
        self._at = probe

    def path(self, relative: str) -> str:
        return f"{self.directory}/{relative}"

    @property
    def exists(self) -> bool:
        return self.snapshot.version >= 0

    def load(self) -> bool:
        """Read the newest state; False when there is no table."""
        with self.lock:
            self.snapshot = self._from_checkpoint(self._checkpoint_hint())
            self.refresh()
            if not self.exists and self.store.list(self.path("_delta_log")):
                self.snapshot = self._from_checkpoint(self._newest_checkpoint())
                self.refresh()
            self._check_complete()
            return self.exists

    def refresh(self) -> list[list[Action]]:
        """Replay what others committed since, by asking for the next version until there is none."""
        with self.lock:
            found: list[list[Action]] = []
            while (actions := self._read_entry(self.snapshot.version + 1)) is not None:
                self.snapshot.replay(self.snapshot.version + 1, actions)
                found.append(actions)
            return found

    def follow(self, kind: Kind = Kind.APPEND) -> bool:
        """Replay what others committed, and raise where it means that we must stop; whether there was anything."""
        with self.lock:
            before = Identity.of(self.snapshot)
            winners = self.refresh()
            for winner in winners:
                check_winner(self.name, kind, self.epoch, winner, before)
            return bool(winners)

    def commit(self, kind: Kind, plan: Planner) -> int:
        """Commit what `plan` makes of the newest snapshot; returns the version. An empty plan commits nothing.

        A commit that is found to be ours already, by its id, counts as made: an earlier try had an unknown outcome.
        """
        with self.lock:
            for _ in range(_ATTEMPTS):
                actions = plan(self.snapshot)
                if not actions:
                    return self.snapshot.version
                version = self.snapshot.version + 1
                outcome = self._attempt(version, actions)
                if isinstance(outcome, Unknown):
                    outcome = self._resolve(outcome)
                match outcome:
                    case Committed():
                        self.snapshot.replay(version, actions)
                        self._at("table.committed")
                        return version
                    case Conflicted():
                        settled = self._follow_winners(kind, version, actions)
                        if settled is not None:
                            return settled
                    case Unknown():
                        raise outcome.cause
            raise TopicClosed(self.name, f"{_ATTEMPTS} commits in a row were overtaken", "check who writes to it")

    def verify(self, version: int, commit_id: str) -> None:
        """Read a commit of ours back; Corruption when it is not what we wrote."""
        actions = self._read_entry(version)
        if actions is None or not is_ours(actions, commit_id):
            raise Corruption(self.path(entry_path(version)), f"it is not our commit {commit_id}")

    def _attempt(self, version: int, actions: Sequence[Action]) -> Outcome:
        try:
            created = self.store.create(self.path(entry_path(version)), encode_commit(actions))
        except OutcomeUnknown as error:
            return Unknown(version, error)
        return Committed(version) if created else Conflicted(version)

    def _resolve(self, unknown: Unknown) -> Outcome:
        """Read back what is there: an entry is somebody's, perhaps ours; nothing readable leaves it unknown."""
        try:
            found = self._read_entry(unknown.version)
        except LakelogError:
            return unknown
        return unknown if found is None else Conflicted(unknown.version)

    def _follow_winners(self, kind: Kind, version: int, actions: Sequence[Action]) -> int | None:
        """Replay who was faster; the version when it turns out that it was this very commit."""
        ours = commit_info(actions)
        before = Identity.of(self.snapshot)
        first = version
        winners = self.refresh()
        if not winners:
            raise Corruption(self.path(entry_path(version)), "it was there and is gone")
        settled: int | None = None
        for place, winner in enumerate(winners):
            if ours is not None and is_ours(winner, ours.commit_id):
                settled = first + place
            else:
                check_winner(self.name, kind, self.epoch, winner, before)
        return settled

    def _read_entry(self, version: int) -> list[Action] | None:
        name = self.path(entry_path(version))
        try:
            data = self.store.read(name)
        except FileNotFoundError:
            return None
        return decode_commit(data, name)

    def _checkpoint_hint(self) -> int:
        try:
            hint = msgspec.json.decode(self.store.read(self.path("_delta_log/_last_checkpoint")))
            return int(hint["version"])
        except (FileNotFoundError, msgspec.DecodeError, KeyError, TypeError, ValueError):
            return -1

    def _newest_checkpoint(self) -> int:
        names = (entry.name for entry in self.store.list(self.path("_delta_log")))
        versions = [int(name[:20]) for name in names if name.endswith(".checkpoint.parquet")]
        return max(versions, default=-1)

    def _from_checkpoint(self, version: int) -> Snapshot:
        """The checkpoint's state; an empty one when it cannot be used, as the log may still hold everything."""
        self.checkpoint_version = -1
        if version < 0:
            return Snapshot()
        name = self.path(checkpoint_path(version))
        try:
            actions = decode_checkpoint(self.store.read(name), name)
        except FileNotFoundError:
            return Snapshot()
        except Corruption as error:
            _log.error("checkpoint unusable, reading the log instead: %s", error)
            return Snapshot()
        snapshot = Snapshot(version=version)
        snapshot.fold(actions)
        self.checkpoint_version = version
        return snapshot

    def _check_complete(self) -> None:
        """A log entry behind the last one that follows without a gap means that one in between is gone."""
        names = (entry.name for entry in self.store.list(self.path("_delta_log")))
        newest = max((int(name[:20]) for name in names if name.endswith(".json") and name[:-5].isdigit()), default=-1)
        if newest > self.snapshot.version:
            missing = self.path(entry_path(self.snapshot.version + 1))
            if self.store.stat(missing) is None:
                raise Corruption(missing, f"it is missing, while version {newest} exists")
            self.refresh()
