"""Judges the files of a table's log: the state that they lead to, and their defects. Pure.

    checkpoint c ── entry c+1 ── … ── newest entry

The entries are the truth, a checkpoint is a state derived from them. A bad entry at or below a good checkpoint costs
only time travel; a bad entry above it makes the table unreadable.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from delta_log.delta.actions import Action, Txn, decode_commit, is_sealed
from delta_log.delta.checkpoint import checkpoint_path, decode_checkpoint
from delta_log.delta.conflicts import commit_info
from delta_log.delta.snapshot import EPOCH_TXN, Snapshot
from delta_log.delta.table import entry_path
from delta_log.model.errors import Corruption
from delta_log.operations.check.findings import Finding, damage, note

HINT = "_delta_log/_last_checkpoint"

#: Fields that a checkpoint hint may have, by any writer.
_HINTED: Final = frozenset(
    {
        "version",
        "size",
        "parts",
        "sizeInBytes",
        "numOfAddFiles",
        "checkpointSchema",
        "checksum",
        "tags",
        "v2Checkpoint",
    }
)


@dataclass(frozen=True, slots=True)
class LogFiles:
    """The bytes of a `_delta_log` by version. `hint` is None if there is no `_last_checkpoint`."""

    entries: Mapping[int, bytes]
    checkpoints: Mapping[int, bytes]
    hint: bytes | None


@dataclass(slots=True)
class LogVerdict:
    """The verdict. `snapshot` is the newest certain state, `newest` the highest version in the names of files.

    `bad_entries` are unreadable or missing entries above that state; `stale` ones are below a checkpoint, and cost
    only history.
    """

    snapshot: Snapshot
    newest: int
    entries: dict[int, list[Action]]
    bad_entries: dict[int, str] = field(default_factory=dict[int, str])
    stale: dict[int, str] = field(default_factory=dict[int, str])
    bad_checkpoints: dict[int, str] = field(default_factory=dict[int, str])
    #: entries without a checksum, which lakelog never writes
    unsealed: list[int] = field(default_factory=list[int])
    #: the states in good checkpoints
    states: dict[int, Snapshot] = field(default_factory=dict[int, Snapshot])
    #: the true states of bad checkpoints, where entries lead to them
    rebuilt: dict[int, Snapshot] = field(default_factory=dict[int, Snapshot])
    bad_hint: str = ""
    #: a crash between the first checkpoint and its hint leaves none
    no_hint: bool = False
    checkpoint: int = -1

    @property
    def readable(self) -> bool:
        return not self.bad_entries and self.snapshot.version >= 0

    def findings(self, directory: str) -> list[Finding]:
        found = [damage(f"{directory}/{entry_path(version)}", why) for version, why in self.bad_entries.items()]
        found += [
            damage(
                f"{directory}/{entry_path(version)}",
                f"{why}; no reader of the present state needs it, as checkpoint {self.checkpoint} is behind it",
            )
            for version, why in self.stale.items()
        ]
        found += [damage(f"{directory}/{checkpoint_path(v)}", why) for v, why in self.bad_checkpoints.items()]
        unsealed = "it has no checksum, as those before it have: it is damaged, or somebody else's"
        found += [damage(f"{directory}/{entry_path(version)}", unsealed) for version in self.unsealed]
        if self.bad_hint:
            found.append(damage(f"{directory}/{HINT}", self.bad_hint))
        if self.no_hint:
            found.append(note(f"{directory}/{HINT}", "it is missing: readers look for checkpoints by listing"))
        if self.newest < 0:
            found.append(damage(f"{directory}/_delta_log", "it holds no version of the table"))
        return found


def judge_log(files: LogFiles, directory: str = "") -> LogVerdict:
    """Read all files; follow the entries from the newest good checkpoint to the newest state."""
    entries, unreadable = _decode_entries(files.entries, directory)
    states, bad_checkpoints = _decode_checkpoints(files.checkpoints, directory)
    newest = max([*files.entries, *states], default=-1)
    best = max(states, default=-1)
    verdict = LogVerdict(states.get(best, Snapshot()), newest, entries, bad_checkpoints=bad_checkpoints)
    verdict.checkpoint, verdict.states = best, states
    verdict.unsealed = _unsealed(files.entries, entries)
    _check_checkpoints(verdict, states, min(files.entries, default=0))
    for version in range(min(files.entries, default=newest + 1), newest + 1):
        if version in entries:
            continue
        why = unreadable.get(version, f"it is missing, while version {newest} exists")
        (verdict.stale if version <= best else verdict.bad_entries)[version] = why
    _follow(verdict, min(files.entries, default=0))
    verdict.no_hint = files.hint is None and bool(states)
    verdict.bad_hint = "" if files.hint is None else _judge_hint(files.hint, states)
    return verdict


def state_at(entries: Mapping[int, list[Action]], base: Snapshot, version: int) -> Snapshot | None:
    """The state that entries lead to from an older state; None if an entry is missing."""
    state = base.branch()
    while state.version < version:
        following = entries.get(state.version + 1)
        if following is None:
            return None
        state.replay(state.version + 1, following)
    return state


def differences(one: Snapshot, other: Snapshot) -> list[str]:
    """Differences of two states that matter to readers or owners."""
    found: list[str] = []
    mine = {file.path: file for file in one.all_files()}
    theirs = {file.path: file for file in other.all_files()}
    if mine != theirs:
        paths = sorted(path for path in {*mine, *theirs} if mine.get(path) != theirs.get(path))
        found.append(f"files ({paths[0]}" + (f" and {len(paths) - 1} more)" if len(paths) > 1 else ")"))
    if one.txns != other.txns:
        names = sorted(name for name in {*one.txns, *other.txns} if one.txns.get(name) != other.txns.get(name))
        found.append(f"transaction ids ({names[0]}" + (f" and {len(names) - 1} more)" if len(names) > 1 else ")"))
    if one.protocol != other.protocol:
        found.append("the protocol")
    if one.metadata != other.metadata:
        found.append("the metadata")
    return found


def _decode_entries(raw: Mapping[int, bytes], directory: str) -> tuple[dict[int, list[Action]], dict[int, str]]:
    entries: dict[int, list[Action]] = {}
    unreadable: dict[int, str] = {}
    for version, data in sorted(raw.items()):
        try:
            actions = decode_commit(data, f"{directory}/{entry_path(version)}")
            if _is_cut(actions, data):
                unreadable[version] = "it is cut: its end is missing"
            else:
                entries[version] = actions
        except Corruption as error:
            unreadable[version] = error.why if data else "it is empty"
    return entries, unreadable


def _unsealed(raw: Mapping[int, bytes], entries: Mapping[int, list[Action]]) -> list[int]:
    """Readable entries without a checksum, after one with a checksum."""
    first = min((version for version, data in raw.items() if is_sealed(data)), default=None)
    return [
        v for v, data in sorted(raw.items()) if first is not None and v > first and v in entries and not is_sealed(data)
    ]


def _is_cut(actions: list[Action], data: bytes) -> bool:
    """True if an entry of lakelog lost its last lines, although the rest can be read."""
    info = commit_info(actions)
    if info is None or not info.commit_id:
        return False
    if not data.endswith(b"\n"):
        return True
    return info.operation == "WRITE" and not any(
        isinstance(action, Txn) and action.app_id == EPOCH_TXN for action in actions
    )


def _decode_checkpoints(raw: Mapping[int, bytes], directory: str) -> tuple[dict[int, Snapshot], dict[int, str]]:
    states: dict[int, Snapshot] = {}
    bad: dict[int, str] = {}
    for version, data in sorted(raw.items()):
        state = Snapshot(version=version)
        try:
            state.fold(decode_checkpoint(data, f"{directory}/{checkpoint_path(version)}"))
            states[version] = state
        except Corruption as error:
            bad[version] = error.why
    return states, bad


def _check_checkpoints(verdict: LogVerdict, states: Mapping[int, Snapshot], oldest: int) -> None:
    """Replay the entries up to each checkpoint, and compare."""
    state = Snapshot()
    for version in sorted({*states, *verdict.bad_checkpoints}):
        base = state if state.version >= 0 or oldest == 0 else None
        reached = None if base is None else state_at(verdict.entries, base, version)
        told = states.get(version)
        if reached is not None:
            apart = differences(told, reached) if told is not None else ["all"]
            if told is not None and apart:
                verdict.bad_checkpoints[version] = f"it disagrees with the entries before it in {', '.join(apart)}"
            if apart:
                verdict.rebuilt[version] = reached
        if told is not None:
            state = told


def _follow(verdict: LogVerdict, oldest: int) -> None:
    state = verdict.snapshot
    if state.version < 0 and oldest > 0:
        verdict.bad_entries.setdefault(oldest - 1, "it is missing, and no checkpoint stands for what came before")
        return
    reached = state.branch()
    while (actions := verdict.entries.get(reached.version + 1)) is not None:
        reached.replay(reached.version + 1, actions)
    verdict.snapshot = reached


def _judge_hint(hint: bytes, states: Mapping[int, Snapshot]) -> str:
    try:
        told = msgspec.json.decode(hint, type=dict[str, Any])
        version = told["version"]
    except (ValueError, LookupError, msgspec.DecodeError):
        return "it cannot be read"
    if type(version) is not int:
        return "it names no version"
    if version not in states:
        return f"it names checkpoint {version}, which is not there or cannot be read"
    unknown = sorted(told.keys() - _HINTED)
    if unknown:
        return f"it has {unknown[0]!r}, which nobody writes there"
    state = states[version]
    actions = 2 + len(state.txns) + state.file_count + len(state.removed)
    return "" if told.get("size", actions) == actions else f"it says {told['size']} actions, not {actions}"
