"""One Delta table: load it, follow it, commit to it. The only place that retries a commit.

A commit is planned by a function of the snapshot that it will follow. When another commit was faster, the winner is
replayed and the plan made anew: a plan can so never be put on a table that it was not made for.

Past 300 lines, as what a commit may meet is told in one place.
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
    """Somebody else's commit has this version; or our own, where the answer to our first try was lost."""

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

    Once a commit of somebody else meant that we must stop, every later call says so again.
    """

    def __init__(self, store: Store, directory: str, *, epoch: int | None = None, probe: Probe = no_probe) -> None:
        self.store = store
        self.directory = directory
        self.name = directory.rpartition("/")[2]
        self.epoch = epoch
        self.snapshot = Snapshot()
        self.checkpoint_version = -1
        self.lock = threading.RLock()
        #: whoever writes a checkpoint; the hint must not go back to an older one
        self.checkpointing = threading.Lock()
        self._at = probe
        self._stopped: LakelogError | None = None
        self._doubted = ""
        self._last_append: tuple[str, int] | None = None
        #: why the store would not read a checkpoint of the last load
        self._refused: StorageRefused | None = None

    def path(self, relative: str) -> str:
        return f"{self.directory}/{relative}"

    @property
    def stopped(self) -> LakelogError | None:
        """Why nothing may be committed here any more, once somebody else's commit meant that."""
        return self._stopped

    @property
    def exists(self) -> bool:
        return self.snapshot.version >= 0

    def load(self) -> bool:
        """Read the newest state; False when there is no table.

        An entry that is missing was cleaned up while we read, if there is a new checkpoint; or it is in one that the
        store would not read; else it is lost.
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
        """Replay what others committed since, by asking for the next version until there is none."""
        with self.lock:
            found: list[list[Action]] = []
            while (actions := self._read_entry(self.snapshot.version + 1)) is not None:
                self.snapshot.replay(self.snapshot.version + 1, actions)
                if self._doubted and is_ours(actions, self._doubted):
                    self._last_append, self._doubted = (self._doubted, self.snapshot.version), ""
                found.append(actions)
            return found

    def follow(self, kind: Kind = Kind.APPEND) -> bool:
        """Replay what others committed, and raise where it means that we must stop; whether there was anything."""
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
        """Commit what `plan` makes of the newest snapshot; returns the version. An empty plan commits nothing.

        A commit that is found to be ours already, by its id, counts as made: an earlier try had an unknown outcome.
        An append says its id beforehand: tried again, its own commit may be in the snapshot, where no plan for it fits.
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
        """Read a commit of ours back; Corruption when it is not what we wrote."""
        actions = self._read_entry(version)
        if actions is None or not is_ours(actions, commit_id):
            raise Corruption(self.path(entry_path(version)), f"it is not our commit {commit_id}")

    def _attempt(self, version: int, actions: Sequence[Action]) -> Outcome:
        """Put-if-absent; once more after a lost answer.

        Both tries put the same entry, so together they make at most one. The second tells more than reading back
        would: the store vouches for what is there.
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
        """The name of our entry may be free because others went on so far that it was deleted."""
        before = version - 1
        if before < 0 or self.store.stat(self.path(entry_path(before))) is not None:
            return
        if self._checkpoint_hint() == before:
            return
        self.store.delete(self.path(entry_path(version)))
        why = f"version {version} was made by others and cleaned up long ago"
        raise self._stop(PlanOutdated(self.name, why) if self.epoch is None else NotOwner(f"{self.name}: {why}"))

    def _doubt(self, kind: Kind, actions: Sequence[Action], cause: LakelogError) -> LakelogError:
        """An append that may be stored is recognised when it turns up."""
        info = commit_info(actions)
        if info is not None and kind is Kind.APPEND:
            self._doubted = info.commit_id
        return cause

    def _follow_winners(
        self, kind: Kind, version: int, actions: Sequence[Action], lost: OutcomeUnknown | None
    ) -> int | None:
        """Replay who was faster; the version when it turns out that it was this very commit.

        Then it was made, whatever came behind it: why we must stop is for the next call to say. `lost` is the answer
        to our own first try: until it is seen who was faster, that may have been us.
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
        """Also of a table that was another owner's already when we first saw it: its epoch must not go back."""
        if self._stopped is not None:
            raise self._stopped
        if self.epoch is not None and self.snapshot.epoch > self.epoch:
            raise self._stop(NotOwner(f"{self.name} belongs to epoch {self.snapshot.epoch}, we are {self.epoch}"))

    def _stop(self, why: LakelogError) -> LakelogError:
        self._stopped = why
        return why

    def _catch_up(self, before: Identity) -> bool:
        """What followed our version was cleaned up: begin anew, if it is the same table still."""
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
        """The state of a checkpoint, the newest if it can be used; an empty one where the log must hold everything."""
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
