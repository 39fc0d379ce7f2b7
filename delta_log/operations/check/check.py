"""`check`: verifies the content of a root. Only reads, beside a running server or without one.

lakelog.json, writers/  →  journal  →  each table: its log, its files and every page of them, its part of the journal

The journal is read before the tables, so records that it lacks must be in them. A defect is checked a second time:
a change that was only under way the first time is no finding.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, overload

import msgspec

from delta_log.model.errors import NotARoot
from delta_log.operations.check.findings import CheckReport, Finding, Severity, damage, note, seen_twice, waste
from delta_log.operations.check.read_journal import JOURNAL, JournalLook, load_journal, read_if_there
from delta_log.operations.check.read_table import list_tables
from delta_log.operations.check.table import Counts, check_journaled, check_table
from delta_log.root.root import ROOT_FILE, Root, as_root, decode_info, decode_writer, open_root
from delta_log.runtime.file_modes import find_wider
from delta_log.stores import Store
from delta_log.stores.local import LEFTOVER_MS, STAGING
from delta_log.topics.catalog import TOPICS

Progress = Callable[[str], None]
#: Maximum of tables that a plan names.
_NAMED: Final = 20


def say_nothing(_line: str) -> None:
    """Ignore progress."""


@dataclass(frozen=True, slots=True)
class CheckPlan:
    """The plan of a check: what it will read; `str` is the text to print."""

    location: str
    tables: tuple[str, ...]

    @property
    def exit_code(self) -> int:
        return 0

    def __str__(self) -> str:
        named = ", ".join([*self.tables[:_NAMED], *(["…"] if len(self.tables) > _NAMED else ())])
        tables = f"all of {len(self.tables)} tables ({named})" if self.tables else "no table, as there is none"
        return f"read of {self.location} its own files, the journal, and {tables}; change nothing"


@overload
def check(
    root: str | Path | Root, *, dry_run: Literal[False] = False, progress: Progress = say_nothing
) -> CheckReport: ...
@overload
def check(root: str | Path | Root, *, dry_run: Literal[True], progress: Progress = say_nothing) -> CheckPlan: ...
def check(
    root: str | Path | Root, *, dry_run: bool = False, progress: Progress = say_nothing
) -> CheckReport | CheckPlan:
    """Check everything in a root; a dry run only plans. `progress` is called with the name of each part.

    NotARoot if there is none.
    """
    place = as_root(root)
    store = place.store
    _check_is_root(place)
    if dry_run:
        return CheckPlan(store.location, tuple(list_tables(store)))
    counts = Counts()
    findings = _twice(lambda: _check_place(store))
    progress("the journal")
    findings += _twice(lambda: _check_journal(store, load_journal(store)))
    look = load_journal(store)
    for name in list_tables(store):
        progress(f"the table {name}")
        found = check_table(store, name, look, counts)
        if found:
            found = seen_twice(found, check_table(store, name, load_journal(store), Counts()))
        findings += found
    return CheckReport(store.location, tuple(findings), counts.tables, counts.files, counts.records, counts.size)


def _check_is_root(place: Root) -> None:
    """Raise NotARoot, except for a root with tables whose root file is damaged or missing."""
    try:
        open_root(place, create=False)
    except NotARoot:
        info = read_if_there(place.store, ROOT_FILE)
        if not place.store.list(TOPICS) or (info is not None and _is_info(info)):
            raise


def _is_info(data: bytes) -> bool:
    try:
        decode_info(data)
    except msgspec.DecodeError:
        return False
    return True


def check_topic(store: Store, name: str) -> list[Finding]:
    """Damage of one topic, of the whole journal, and of other tables' files that the journal may still restore."""

    def look() -> list[Finding]:
        journal = load_journal(store)
        findings = [*_check_readable(journal), *check_table(store, name, journal, Counts())]
        for other in sorted({item.frame.topic for item in journal.found.frames} - {name}):
            findings += check_journaled(store, other, journal)
        return findings

    return [finding for finding in _twice(look) if finding.severity is Severity.DAMAGE]


def _twice(look: Callable[[], list[Finding]]) -> list[Finding]:
    found = look()
    return seen_twice(found, look()) if found else []


def _check_place(store: Store) -> list[Finding]:
    findings: list[Finding] = []
    try:
        decode_info(store.read(ROOT_FILE))
    except (FileNotFoundError, msgspec.DecodeError) as error:
        findings.append(damage(ROOT_FILE, f"it cannot be read: {error}"))
    for entry in store.list("writers"):
        path = f"writers/{entry.name}"
        try:
            decode_writer(store.read(path))
        except FileNotFoundError:
            continue
        except msgspec.DecodeError as error:
            findings.append(damage(path, f"it cannot be read ({error}): the next start writes a new one"))
    wider = find_wider(store.location)
    findings += [] if wider is None else [note("", wider)]
    now_ms = store.now_ms()
    findings += [
        waste(f"{STAGING}/{entry.name}", "a crash left it")
        for entry in store.list(STAGING)
        if now_ms - entry.modified_ms > LEFTOVER_MS
    ]
    return findings


def _check_readable(look: JournalLook) -> list[Finding]:
    found = look.found
    findings = [damage(JOURNAL, what) for what in found.damage]
    findings += [
        damage(
            f"{JOURNAL} of {note_.topic}-{note_.partition}",
            f"the offsets {note_.base_offset} to {note_.base_offset + note_.count - 1} are lost ({why})",
        )
        for note_, why in ((lost.note, lost.why) for lost in found.lost)
    ]
    return findings + [
        damage(JOURNAL, f"{what} cannot be read, and nothing says what they gave out: a start skips all that may be")
        for what in found.untraceable
    ]


def _check_journal(store: Store, look: JournalLook) -> list[Finding]:
    found = look.found
    findings = _check_readable(look)
    findings += [note(JOURNAL, f"a torn end that a start cuts off: {what}") for what in found.torn]
    findings += [note(f"{JOURNAL}/{name}", "set aside: records of no table as it is") for name in look.asides]
    known = set(list_tables(store))
    gone = sorted({item.frame.topic for item in found.frames} - known)
    return findings + [
        damage(f"{TOPICS}/{name}", "the journal has records of it, and there is no such table") for name in gone
    ]
