"""A Delta table: load it, follow it, commit to it. The only place that retries a commit.

A commit is planned by a function of the snapshot that it will follow. If another commit was first, that one is
replayed and the plan is made again: so a plan is never committed to a state that it was not made for.

Past 300 lines, as all outcomes of a commit are handled in one place.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import msgspec

from delta_log.delta.actions import Action, decode_commit, encode_commit
from delta_log.delta.checkpoint import checkpoint_path, decode_checkpoint, log_versions
from delta_log.delta.conflicts import Identity, Kind, check_protocol, check_winner, commit_info, is_ours
from delta_log.delta.snapshot import Snapshot
from delta_log.model.errors import (
    Corruption,
    LakelogError,
    NotOwner,
    OutcomeUnknown,
    PlanOutdated,
    StorageRefused,
    TopicClosed,
)
from delta_log.runtime.syscalls import Probe, no_probe
from delta_log.stores import Store

_ATTEMPTS: Final = 100
_LOADS: Final = 5
_log = logging.getLogger(__name__)

Planner = Callable[[Snapshot], Sequence[Action] | None]


@dataclass(frozen=True, slots=True)
class Committed:
    version: int


@dataclass(frozen=True, slots=True)
class Conflicted:
    """The version is taken by another writer's commit, or by this one if the answer to its first try was lost."""

    version: int
    lost: OutcomeUnknown | None = None


@dataclass(frozen=True, slots=True)
class Unknown:
    version: int
    cause: LakelogError


Outcome = Committed | Conflicted | Unknown


def entry_path(version: int) -> str:
    return f"_delta_log/{version:020d}.json"


class Table:
    """A table at `directory` of a store. `epoch` is the owner's; None for a job or a reader beside it.

    Once another writer's commit requires this one to stop, every later call raises the same error.
    """

    def __init__(self, store: Store, directory: str, *, epoch: int | None = None, probe: Probe = no_probe) -> None:
        self.store = store
        self.directory = directory
        self.name = directory.rpartition("/")[2]
        self.epoch = epoch
        self.snapshot = Snapshot()
        self.checkpoint_version = -1
        self.lock = threading.RLock()
        #: held while a checkpoint is written; the hint must not go back to an older one
        self.checkpointing = threading.Lock()
        self._at = probe
        self._stopped: LakelogError | None = None
        self._doubted = ""
        self._last_append: tuple[str, int] | None = None
        #: the store's refusal to read a checkpoint during the last load
        self._refused: StorageRefused | None = None

    def path(self, relative: str) -> str:
        return f"{self.directory}/{relative}"

    @property
    def stopped(self) -> LakelogError | None:
        """The reason why no commit is allowed here any more, after another writer's commit; else None."""
        return self._stopped

    @property
    def exists(self) -> bool:
        return self.snapshot.version >= 0

    def load(self) -> bool:
        """Read the newest state; False if there is no table.

        A missing entry was cleaned up during the load, if there is a new checkpoint; or it is covered by a checkpoint
        that the store refused to read; else it is lost.
        """
        with self.lock:
            self._stopped = self._last_append = None
            for _ in range(_LOADS):
                names = [entry.name for entry in self.store.list(self.path("_delta_log"))]
                hint = self._checkpoint_hint()
                self.snapshot = self._from_checkpoints(hint, names)
                self.refresh()
                newest = max(log_versions(names, ".json"), default=-1)
                if newest <= self.snapshot.version:
                    if self.exists:
                        check_protocol(self.name, self.snapshot.protocol, owned=self.epoch is not None)
                    return self.exists
                missing = self.path(entry_path(self.snapshot.version + 1))
                if self._checkpoint_hint() == hint:
                    raise self._refused or Corruption(missing, f"it is missing, while version {newest} exists")
            raise TopicClosed(self.name, "its log is cleaned up faster than it can be read", "try again")

    def refresh(self) -> list[list[Action]]:
        """Replay other writers' new commits, by reading the next version until there is none."""
        with self.lock:
            found: list[list[Action]] = []
            while (actions := self._read_entry(self.snapshot.version + 1)) is not None:
                self.snapshot.replay(self.snapshot.version + 1, actions)
                if self._doubted and is_ours(actions, self._doubted):
                    self._last_append, self._doubted = (self._doubted, self.snapshot.version), ""
                found.append(actions)
            return found

    def follow(self, kind: Kind = Kind.APPEND) -> bool:
        """Replay other writers' commits, and raise if one requires this writer to stop; True if there were any."""
        with self.lock:
            self._check_going_on()
            before = Identity.of(self.snapshot)
            winners = self.refresh()
            self._check_winners(kind, winners, before)
            if winners or self.epoch is not None:
                return bool(winners)
            present = self.store.stat(self.path(entry_path(self.snapshot.version))) is not None
            return not present and self._catch_up(before)

    def commit(self, kind: Kind, plan: Planner, *, commit_id: str = "") -> int:
        """Commit the actions that `plan` makes from the newest snapshot; returns the version. An empty plan is skipped.

        A commit found under this writer's own id counts as made: an earlier try had an unknown outcome. An append gives
        its id beforehand: on a retry its own commit may be in the snapshot, to which its plan does not apply.
        """
        with self.lock:
            for _ in range(_ATTEMPTS):
                self._check_going_on()
                if commit_id and self._last_append is not None and self._last_append[0] == commit_id:
                    return self._last_append[1]
                actions = plan(self.snapshot)
                if not actions:
                    return self.snapshot.version
                version = self.snapshot.version + 1
                match self._attempt(version, actions):
                    case Committed():
                        self.snapshot.replay(version, actions)
                        self._last_append = (commit_id, version) if commit_id else self._last_append
                        self._at("table.committed")
                        return version
                    case Conflicted(_, lost):
                        settled = self._follow_winners(kind, version, actions, lost)
                        if settled is not None:
                            self._last_append = (commit_id, settled) if commit_id else self._last_append
                            return settled
                    case Unknown(_, cause):
                        raise self._doubt(kind, actions, cause)
            raise TopicClosed(self.name, f"{_ATTEMPTS} commits in a row were overtaken", "check who writes to it")

    def verify(self, version: int, commit_id: str) -> None:
        """Read this writer's commit back; Corruption if it is missing or another one."""
        actions = self._read_entry(version)
        if actions is None or not is_ours(actions, commit_id):
            raise Corruption(self.path(entry_path(version)), f"it is not our commit {commit_id}")

    def _attempt(self, version: int, actions: Sequence[Action]) -> Outcome:
        """Put-if-absent, with one retry after a lost answer.

        Both tries put the same entry, so together they make at most one. The second try is more certain than reading
        back: if it succeeds, the store guarantees the entry.
        """
        name, data, doubt = self.path(entry_path(version)), encode_commit(actions), None
        try:
            created = self.store.create(name, data)
        except OutcomeUnknown as lost:
            doubt = lost
            try:
                created = self.store.create(name, data)
            except (OutcomeUnknown, StorageRefused):
                return Unknown(version, lost)
        if not created:
            return Conflicted(version, doubt)
        try:
            self._check_not_cleaned_up(version)
        except StorageRefused as error:
            return Unknown(version, OutcomeUnknown(name, error))
        return Committed(version)

    def _check_not_cleaned_up(self, version: int) -> None:
        """Refuse a version that was free only because later commits of others had it cleaned up."""
        before = version - 1
        if before < 0 or self.store.stat(self.path(entry_path(before))) is not None:
            return
        if self._checkpoint_hint() == before:
            return
        self.store.delete(self.path(entry_path(version)))
        why = f"version {version} was made by others and cleaned up long ago"
        raise self._stop(PlanOutdated(self.name, why) if self.epoch is None else NotOwner(f"{self.name}: {why}"))

    def _doubt(self, kind: Kind, actions: Sequence[Action], cause: LakelogError) -> LakelogError:
        """Note an append that may be stored, so that it is recognised when it appears; returns `cause`."""
        info = commit_info(actions)
        if info is not None and kind is Kind.APPEND:
            self._doubted = info.commit_id
        return cause

    def _follow_winners(
        self, kind: Kind, version: int, actions: Sequence[Action], lost: OutcomeUnknown | None
    ) -> int | None:
        """Replay the commits that were first; returns the version if one of them is this very commit.

        Then it was made, whatever followed: a reason to stop is raised by the next call. `lost` is the error of this
        commit's first try: until the winners are read, it may be one of them.
        """
        ours = commit_info(actions)
        before = Identity.of(self.snapshot)
        if lost is not None:
            self._doubt(kind, actions, lost)
        try:
            winners = self.refresh()
        except LakelogError as error:
            if lost is None:
                raise
            raise lost from error
        if not winners:
            raise Corruption(self.path(entry_path(version)), "it was there and is gone")
        places = [i for i, winner in enumerate(winners) if ours is not None and is_ours(winner, ours.commit_id)]
        try:
            self._check_winners(kind, [w for i, w in enumerate(winners) if i not in places], before)
        except LakelogError:
            if not places:
                raise
        return version + places[0] if places else None

    def _check_winners(self, kind: Kind, winners: Sequence[Sequence[Action]], before: Identity) -> None:
        for winner in winners:
            if self._last_append is not None and is_ours(winner, self._last_append[0]):
                continue
            try:
                check_winner(self.name, kind, self.epoch, winner, before)
            except LakelogError as error:
                raise self._stop(error) from None

    def _check_going_on(self) -> None:
        """Raise if this writer must stop; also for a table with a later epoch at load: its epoch must not go back."""
        if self._stopped is not None:
            raise self._stopped
        if self.epoch is not None and self.snapshot.epoch > self.epoch:
            raise self._stop(NotOwner(f"{self.name} belongs to epoch {self.snapshot.epoch}, we are {self.epoch}"))

    def _stop(self, why: LakelogError) -> LakelogError:
        self._stopped = why
        return why

    def _catch_up(self, before: Identity) -> bool:
        """Load again, as the commits after this version were cleaned up; raises if it is not the same table."""
        if self.load() and self.snapshot.protocol is not None and self.snapshot.metadata is not None:
            self._check_winners(Kind.APPEND, [[self.snapshot.protocol, self.snapshot.metadata]], before)
        return True

    def _read_entry(self, version: int) -> list[Action] | None:
        name = self.path(entry_path(version))
        try:
            data = self.store.read(name)
        except FileNotFoundError:
            return None
        return decode_commit(data, name)

    def _checkpoint_hint(self) -> int:
        try:
            version = msgspec.json.decode(self.store.read(self.path("_delta_log/_last_checkpoint")))["version"]
        except (FileNotFoundError, ValueError, LookupError, TypeError):
            return -1
        return version if type(version) is int else -1

    def _from_checkpoints(self, hint: int, names: Sequence[str]) -> Snapshot:
        """The state of the newest usable checkpoint; an empty one if there is none."""
        self.checkpoint_version, self._refused = -1, None
        listed = sorted(log_versions(names, ".checkpoint.parquet"), reverse=True)
        for version in dict.fromkeys([hint, *listed] if hint >= 0 else listed):
            snapshot = self._from_checkpoint(version)
            if snapshot is not None:
                self.checkpoint_version = version
                return snapshot
        return Snapshot()

    def _from_checkpoint(self, version: int) -> Snapshot | None:
        name = self.path(checkpoint_path(version))
        snapshot = Snapshot(version=version)
        try:
            snapshot.fold(decode_checkpoint(self.store.read(name), name))
        except FileNotFoundError:
            return None
        except (Corruption, StorageRefused) as error:
            _log.error("checkpoint unusable, reading an older one or the log instead: %s", error)
            self._refused = error if isinstance(error, StorageRefused) else self._refused
            return None
        return snapshot
