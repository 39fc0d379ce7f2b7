"""Takes a consistent cut of a root, also beside its owner: a part of the journal, and a version of each table.

The journal is read first, up to some group. Everything acknowledged before is then in this journal or already in a
table. Of each table the newest version with nothing after that group is taken: so no table is ahead of another, and no
group's offset is committed for a record that is not there.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final

from delta_log.delta.actions import Action
from delta_log.delta.conflicts import commit_info
from delta_log.delta.snapshot import Snapshot
from delta_log.delta.table import entry_path
from delta_log.model.errors import Corruption, StorageRefused
from delta_log.operations.check.judge_log import LogVerdict, state_at
from delta_log.operations.check.read_journal import JournalLook, load_journal
from delta_log.operations.check.read_table import TableLook, list_tables, look_at_table
from delta_log.root.root import RootInfo, read_topic_defaults
from delta_log.stores import Store

_PLACE: Final = re.compile(r"(\d+)-(-?\d+)-(\d+)")
_ATTEMPTS: Final = 20


@dataclass(frozen=True, slots=True)
class TableCut:
    """A version of a table: its state and its entry, as it is stored."""

    name: str
    directory: str
    state: Snapshot
    entry: bytes


@dataclass(slots=True)
class Cut:
    """A consistent cut. `left_out`: tables that cannot be taken, with the reasons."""

    info: RootInfo
    epoch: int
    defaults: dict[str, object]
    journal: JournalLook
    tables: list[TableCut] = field(default_factory=list[TableCut])
    left_out: dict[str, str] = field(default_factory=dict[str, str])


def take_cut(store: Store, info: RootInfo, *, with_journal: bool) -> Cut:
    """Take a cut. Corruption if offsets that the journal assigned are unknown; StorageRefused for a too busy root."""
    for _ in range(_ATTEMPTS):
        epoch = newest_epoch(store)
        journal = load_journal(store) if with_journal else JournalLook()
        if journal.found.untraceable:
            raise Corruption("the journal", f"{', '.join(journal.found.untraceable)} cannot be read; repair it first")
        cut = Cut(info, epoch, read_topic_defaults(store), journal)
        quiet = not with_journal or journal.end[0] < epoch
        if not all(_add(store, cut, name, None if quiet else journal.end) for name in list_tables(store)):
            continue
        if not with_journal or not quiet or _is_still_quiet(store, journal, epoch):
            return cut
    raise StorageRefused("a copy of the root", "it changes faster than it can be read; try again")


def choose_version(verdict: LogVerdict, end: tuple[int, int, int] | None) -> int:
    """The newest version with nothing journaled at or after `end`; the newest of all if `end` is None."""
    if end is None:
        return verdict.snapshot.version
    behind = [version for version, actions in verdict.entries.items() if _place_of(actions) >= end]
    return min([*(version - 1 for version in behind), verdict.snapshot.version])


def state_of(verdict: LogVerdict, version: int) -> Snapshot | None:
    """The state at an older version; None if entries and checkpoints do not lead there."""
    bases = [each for known, each in verdict.states.items() if known <= version]
    base = max(bases, key=lambda each: each.version, default=Snapshot())
    return state_at(verdict.entries, base, version)


def newest_epoch(store: Store) -> int:
    stems = [entry.name.removesuffix(".json") for entry in store.list("writers")]
    return max((int(stem) for stem in stems if stem.isdecimal()), default=0)


def _is_still_quiet(store: Store, before: JournalLook, epoch: int) -> bool:
    """Check that nothing was journaled meanwhile: then the newest versions are consistent."""
    return load_journal(store).end == before.end and newest_epoch(store) == epoch


def _add(store: Store, cut: Cut, name: str, end: tuple[int, int, int] | None) -> bool:
    """Add a table to the cut; False if its older version has been cleaned up meanwhile."""
    look = look_at_table(store, name)
    if look.verdict.newest < 0:
        return True
    if look.live is None:
        cut.left_out[name] = _why_not(look)
        return True
    version = choose_version(look.verdict, end)
    state = state_of(look.verdict, version)
    if version < 0:
        return True
    try:
        entry = store.read(f"{look.directory}/{entry_path(version)}")
    except FileNotFoundError:
        return False
    if state is None:
        return False
    cut.tables.append(TableCut(name, look.directory, state, entry))
    return True


def _why_not(look: TableLook) -> str:
    if look.exported:
        return "it was exported, and is no topic any more"
    findings = look.verdict.findings(look.directory)
    return look.why or (str(findings[0]) if findings else "it was not made by lakelog")


def _place_of(actions: list[Action]) -> tuple[int, int, int]:
    """Journal position of an append's newest frame; for other commits a position before all."""
    info = commit_info(actions)
    found = _PLACE.fullmatch(info.commit_id) if info is not None else None
    return (-1, -1, -1) if found is None else (int(found[1]), int(found[2]), int(found[3]))
