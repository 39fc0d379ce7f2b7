"""Checks one table: its log, every page of its files, and its part of the journal."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from delta_log.delta.conflicts import check_protocol
from delta_log.maintenance.audit.audit_files import AuditOrder, audit_files
from delta_log.maintenance.audit.continuity import check_chain
from delta_log.maintenance.history import OWNERS_FILE
from delta_log.maintenance.jobs_api import ORPHAN_AFTER_MS
from delta_log.maintenance.orphaned_topics import has_files
from delta_log.model.errors import LakelogError
from delta_log.model.lost_ranges import LostRange, count_within
from delta_log.model.types import DataFile
from delta_log.operations.check.findings import Finding, damage, note, waste
from delta_log.operations.check.journal_vs_table import check_agreement, check_connection, journaled
from delta_log.operations.check.read_journal import JournalLook
from delta_log.operations.check.read_table import TableLook, look_at_table
from delta_log.stores import Store
from delta_log.topics.topic_state import TopicState

_NO_WRITER: Final = 1 << 62


@dataclass(slots=True)
class Counts:
    """Counts of what was checked."""

    tables: int = 0
    files: int = 0
    records: int = 0
    size: int = 0


def check_table(store: Store, name: str, journal: JournalLook, counts: Counts) -> list[Finding]:
    """Check a table. Its log comes first: it names the files, and where the table ends."""
    look = look_at_table(store, name)
    if look.verdict.newest < 0 and not has_files(store, look.directory):
        return []  # the topic was never created, or is just being created
    if look.exported:
        return [note(look.directory, "it was exported: others write to it, and it is no topic any more")]
    counts.tables += 1
    findings = look.verdict.findings(look.directory)
    if look.live is None:
        return [*findings, _why_closed(look)]
    findings += _check_owner(store, look, look.live)
    return findings if look.live.deleted else findings + _check_content(store, look, look.live, journal, counts)


def check_journaled(store: Store, name: str, journal: JournalLook) -> list[Finding]:
    """Check only the files whose rows are also in the journal: their damage may still be repaired from it."""
    look = look_at_table(store, name)
    if look.live is None or look.live.deleted:
        return []
    frames = journal.of(name, look.live.id)
    return _check_files(store, look, look.live, [file for file in look.files(look.live) if journaled(file, frames)])


def _why_closed(look: TableLook) -> Finding:
    if not look.verdict.readable:
        return note(look.directory, "its files were not looked into: its log does not say which they are")
    if not look.exclusive:
        return damage(look.directory, "its protocol lacks lakelog.exclusive: others may write to it")
    return damage(look.directory, look.why or "it was not made by lakelog")


def _check_owner(store: Store, look: TableLook, live: TopicState) -> list[Finding]:
    findings: list[Finding] = []
    try:
        check_protocol(look.name, look.verdict.snapshot.protocol, owned=True)
    except LakelogError as error:
        findings.append(damage(look.directory, str(error)))
    epoch, newest = live.table.snapshot.epoch, _newest_writer(store)
    if epoch > newest:
        findings.append(damage(look.directory, f"epoch {epoch} wrote to it, writers/ knows up to {newest}"))
    return findings


def _check_content(
    store: Store, look: TableLook, live: TopicState, journal: JournalLook, counts: Counts
) -> list[Finding]:
    files = look.files(live)
    counts.files += len(files)
    counts.records += sum(file.count for file in files)
    counts.size += sum(file.size for file in files)
    findings = _check_chains(look, live)
    findings += _check_files(store, look, live, files)
    findings += _check_leftovers(store, look, live, journal)
    frames = journal.of(look.name, live.id)
    notes = [lost.note for lost in journal.found.lost if lost.note.topic_id == live.id]
    lost = [(each.partition, each.base_offset, each.count) for each in notes]
    rows = [item.frame for item in frames if item.frame.count]
    findings += check_connection(rows, live.table.snapshot, live.partitions, look.name, lost)
    return findings + check_agreement(live, files, frames, journal)


def _check_chains(look: TableLook, live: TopicState) -> list[Finding]:
    snapshot = live.table.snapshot
    findings: list[Finding] = []
    for index in range(live.partitions):
        chain = check_chain(
            snapshot.files(-1 if live.internal else index),
            partition=index,
            log_start=snapshot.start(index),
            end=snapshot.end(index),
            dense=not live.internal,
            clean=snapshot.clean(index),
            lost=look.lost,
        )
        findings += [damage(_in_table(live, finding.file), finding.what) for finding in chain]
    return findings + [
        note(look.directory, f"partition {lost.partition}: the offsets {lost.first} to {lost.last} were given up")
        for lost in look.lost
    ]


def _check_files(store: Store, look: TableLook, live: TopicState, files: Sequence[DataFile]) -> list[Finding]:
    findings: list[Finding] = []
    for file in files:
        answer = audit_files(
            AuditOrder(
                store.location,
                look.directory,
                (file,),
                _is_dense(live, file, look.lost),
                tuple(live.rows.schema.names),
            ),
            store=store,
        )
        findings += [damage(_in_table(live, finding.file), finding.what) for finding in answer.findings]
        if answer.missing:
            live.table.refresh()
            if live.table.snapshot.has_file(file.path):
                findings.append(damage(_in_table(live, file.path), "it is missing"))
    return findings


def _is_dense(live: TopicState, file: DataFile, lost: Sequence[LostRange]) -> bool:
    if live.internal or file.base_offset < live.table.snapshot.clean(file.partition):
        return False
    return not count_within(lost, file.partition, file.base_offset, file.last_offset)


def _check_leftovers(store: Store, look: TableLook, live: TopicState, journal: JournalLook) -> list[Finding]:
    """Find files that no commit names: left by a crash or a job, or the only trace of a lost commit."""
    snapshot, now_ms = live.table.snapshot, store.now_ms()
    journaled = [item.frame for item in journal.of(look.name, live.id) if item.sound]
    findings: list[Finding] = []
    directories = [""] if live.internal else [f"partition={index}" for index in range(live.partitions)]
    for directory in directories:
        index = 0 if live.internal else int(directory.rpartition("=")[2])
        for entry in store.list(live.table.path(directory).rstrip("/")):
            path = f"{directory}/{entry.name}".lstrip("/")
            if entry.is_directory or snapshot.has_file(path) or path in snapshot.removed:
                continue
            base = int(entry.name[:20]) if entry.name[:20].isdecimal() else -1
            appended = OWNERS_FILE.fullmatch(entry.name) is not None and "-fold-" not in entry.name
            known = any(f.partition == index and f.base_offset <= base < f.next_offset for f in journaled)
            if appended and base >= snapshot.end(index) and not known:
                what = f"no commit names it, and it begins at {base}, where the table has ended: a commit is lost"
                findings.append(damage(_in_table(live, path), what))
            elif now_ms - entry.modified_ms > ORPHAN_AFTER_MS:
                findings.append(waste(_in_table(live, path), "no commit names it, and nobody is about to"))
    return findings


def _newest_writer(store: Store) -> int:
    stems = [entry.name.removesuffix(".json") for entry in store.list("writers")]
    return max((int(stem) for stem in stems if stem.isdecimal()), default=_NO_WRITER)


def _in_table(live: TopicState, path: str) -> str:
    return live.table.path(path) if path else live.table.directory
