"""Plans a repair: the cures that are safe now, and the damage without a cure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from delta_log.delta.checkpoint import encode_checkpoint
from delta_log.delta.table import entry_path
from delta_log.journal.unreadable_groups import TableEnds
from delta_log.model.errors import InvalidRequest
from delta_log.model.lost_ranges import LostRange
from delta_log.model.types import DataFile
from delta_log.operations.backup.point_in_time import newest_epoch
from delta_log.operations.check.check import check
from delta_log.operations.check.findings import CheckReport, Finding, Severity
from delta_log.operations.check.read_journal import JournalLook, load_journal, read_if_there
from delta_log.operations.check.read_table import TableLook, list_tables, look_at_table
from delta_log.operations.repair.actions import (
    Cure,
    EmptyEntry,
    GiveUp,
    KnowEpochs,
    PointToCheckpoint,
    ReplaceCheckpoint,
    RestoreFile,
    WriteCheckpoint,
)
from delta_log.operations.repair.data_files import (
    absent_ranges,
    plan_give_up,
    restored_rows,
    survey_file,
    unreadable_ranges,
)
from delta_log.operations.repair.journal import plan_settling
from delta_log.operations.repair.log_entries import Evidence, decide_empty_entry
from delta_log.root.root import Root, has_owners
from delta_log.stores import Store
from delta_log.topics.topic_state import TopicState


@dataclass(frozen=True, slots=True)
class Asked:
    """A range to give up by request, of a topic or an internal table."""

    topic: str
    lost: LostRange


@dataclass(frozen=True, slots=True)
class RepairPlan:
    """The findings, the cures to carry out, and what is left for the operator."""

    checked: CheckReport
    cures: tuple[Cure, ...]
    left: tuple[str, ...]


def plan_repair(place: Root, asked: Sequence[Asked], progress: Callable[[str], None]) -> RepairPlan:
    store = place.store
    checked = check(place, progress=progress)
    journal = load_journal(store)
    looks = [look_at_table(store, name) for name in list_tables(store)]
    cures: list[Cure] = []
    advice: dict[str, str] = {}
    for look in looks:
        cures += _log_cures(store, look, journal, advice)
        if look.live is not None and not look.live.deleted:
            cures += _file_cures(look, look.live, journal, checked.findings, asked, advice)
    _check_asked(asked, looks)
    cures += _epoch_cures(store, looks)
    cures += _journal_cures(looks, journal, advice)
    return RepairPlan(checked, tuple(cures), tuple(_left(checked.findings, cures, advice)))


def _log_cures(store: Store, look: TableLook, journal: JournalLook, advice: dict[str, str]) -> list[Cure]:
    verdict, directory = look.verdict, look.directory
    if look.exported or not look.exclusive:
        return []
    if verdict.bad_entries:
        cure = plan_empty_entry(store, look, journal)
        if isinstance(cure, EmptyEntry):
            return [cure]
        advice[f"{directory}/{entry_path(max(verdict.bad_entries))}"] = cure
        return []
    cures: list[Cure] = []
    sound = {verdict.checkpoint} - {-1}
    for version in verdict.bad_checkpoints:
        if version in verdict.rebuilt:
            cures.append(WriteCheckpoint(directory, version, verdict.rebuilt[version]))
            sound.add(version)
        else:
            cures.append(ReplaceCheckpoint(directory, version, verdict.snapshot))
            sound.add(verdict.snapshot.version)
    if verdict.bad_hint or cures:
        newest = max(sound, default=-1)
        cures.append(PointToCheckpoint(directory, newest, _checkpoint_size(look, newest)))
    return cures


def plan_empty_entry(store: Store, look: TableLook, journal: JournalLook) -> EmptyEntry | str:
    """Plan to empty a table's unreadable entry; the reason as text if that is not safe now."""
    return decide_empty_entry(look.verdict, look.directory, _evidence(store, look, journal))


def _checkpoint_size(look: TableLook, version: int) -> int:
    """Number of actions in a checkpoint."""
    verdict = look.verdict
    state = verdict.rebuilt.get(version) or verdict.states.get(version) or verdict.snapshot
    return encode_checkpoint(state)[1] if version >= 0 else 0


def _evidence(store: Store, look: TableLook, journal: JournalLook) -> Evidence:
    before = look.verdict.snapshot
    unnamed: list[tuple[int, str]] = []
    for entry in store.list(look.directory):
        if not entry.is_directory:
            unnamed.append((0, entry.name))
        elif entry.name.startswith("partition="):
            index = int(entry.name.removeprefix("partition="))
            names = (f"{entry.name}/{file.name}" for file in store.list(f"{look.directory}/{entry.name}"))
            unnamed += [
                (index, n.rpartition("/")[2]) for n in names if not before.has_file(n) and n not in before.removed
            ]
    unnamed = [(p, name) for p, name in unnamed if not before.has_file(name) and name not in before.removed]
    complete = all(_is_there(store, look.directory, file) for file in before.all_files())
    data = read_if_there(store, f"{look.directory}/{entry_path(max(look.verdict.bad_entries))}") or b""
    own = tuple(each for each in journal.found.frames if each.frame.topic == look.name)
    return Evidence(data, tuple(unnamed), complete, own)


def _is_there(store: Store, directory: str, file: DataFile) -> bool:
    entry = store.stat(f"{directory}/{file.path}")
    return entry is not None and entry.size == file.size


def _file_cures(
    look: TableLook,
    live: TopicState,
    journal: JournalLook,
    findings: Sequence[Finding],
    asked: Sequence[Asked],
    advice: dict[str, str],
) -> list[Cure]:
    frames = journal.of(look.name, live.id)
    bad = {f.place for f in findings if f.severity is Severity.DAMAGE}
    cures: list[Cure] = []
    restorable: list[DataFile] = []
    for file in look.files(live):
        path = live.table.path(file.path)
        if path not in bad:
            continue
        if restored_rows(live, file, frames, journal) is not None:
            restorable.append(file)
            cures.append(RestoreFile(look.name, look.directory, file))
            continue
        survey = survey_file(live, file, frames, journal)
        ranges = [*unreadable_ranges([survey]), *absent_ranges(live, survey)]
        spelled = ", ".join(f"{look.name}:{one.partition}:{one.first}-{one.last}" for one in ranges)
        give = f", or give up what nothing has any more: {spelled}" if ranges else ""
        advice[path] = f"put the same file back from a backup{give}"
    for each in asked:
        if each.topic == look.name:
            cure = _give_up(look, live, each.lost, journal, restorable)
            cures += [cure] if cure is not None else []
    return cures


def _give_up(
    look: TableLook, live: TopicState, wanted: LostRange, journal: JournalLook, restorable: Sequence[DataFile]
) -> GiveUp | None:
    files = [
        file
        for file in look.files(live)
        if max(file.partition, 0) == wanted.partition
        and file.base_offset <= wanted.last
        and file.last_offset >= wanted.first
    ]
    journaled = [
        LostRange(each.frame.partition, each.frame.base_offset, each.frame.next_offset - 1)
        for each in journal.of(look.name, live.id)
        if each.sound and each.frame.count
    ]
    surveys = [survey_file(live, file, journal.of(look.name, live.id), journal) for file in files]
    return plan_give_up(live, wanted, surveys, [file for file in files if file in restorable], journaled)


def _check_asked(asked: Sequence[Asked], looks: Sequence[TableLook]) -> None:
    usable = {look.name for look in looks if look.live is not None and not look.live.deleted}
    for each in asked:
        if each.topic not in usable:
            raise InvalidRequest(
                f"nothing of {each.topic!r} can be given up: there is no such topic, or its log is damaged"
            )


def plan_epochs(store: Store) -> list[Cure]:
    """The only cure that must come before taking ownership."""
    return _epoch_cures(store, [look_at_table(store, name) for name in list_tables(store)])


def _epoch_cures(store: Store, looks: Sequence[TableLook]) -> list[Cure]:
    """Plan epochs for tables ahead of `writers/`: without them each new owner would count as an earlier one there.

    Without any `writers/`, a start itself reads the epochs of the tables.
    """
    newest = newest_epoch(store)
    ahead = [
        (look.directory, look.live.table.snapshot.epoch)
        for look in looks
        if look.live is not None and look.live.table.snapshot.epoch > newest
    ]
    return [KnowEpochs(tuple(ahead))] if ahead and has_owners(store) else []


def _journal_cures(looks: Sequence[TableLook], journal: JournalLook, advice: dict[str, str]) -> list[Cure]:
    """Plan the journal's cure: after all others, and only if the end of each table is known."""
    if not journal.found.untraceable:
        return []
    closed = [look.name for look in looks if look.live is None and not look.exported]
    if closed:
        advice["journal"] = f"mend {', '.join(closed)} first: nothing else says where they end"
        return []
    lives = [look.live for look in looks if look.live is not None and not look.live.deleted]
    ends = [
        TableEnds(
            live.name,
            live.id,
            live.table.snapshot.epoch,
            tuple(live.table.snapshot.end(index) for index in range(live.partitions)),
        )
        for live in lives
    ]
    cure = plan_settling(journal, ends)
    return [cure] if cure is not None else []


def _left(findings: Sequence[Finding], cures: Sequence[Cure], advice: dict[str, str]) -> list[str]:
    """Damage without a cure, with advice."""
    cured = "\n".join(map(str, cures))
    left: list[str] = []
    for finding in findings:
        if finding.severity is not Severity.DAMAGE or (finding.place and f"{finding.place}: " in cured):
            continue
        what = str(finding).partition(": ")[2]
        left.append(f"{what}; {advice.get(finding.place) or _usual_advice(finding)}")
    return left


def _usual_advice(finding: Finding) -> str:
    if finding.place.startswith("journal"):
        return "the next start keeps what is readable, and the rest as a hole that it names"
    if "/_delta_log/" in finding.place:
        return "put the same file back from a backup; never remove it"
    if finding.place.startswith("writers/"):
        return "start the server: it writes a new one"
    if "lacks the offsets" in finding.what:
        return "put the files back from a backup, or give the offsets up"
    return "see docs/how-to/recover.md"
