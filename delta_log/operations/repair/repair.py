"""`repair`: prints a plan, carries out what is safe while holding the root, and names what is left.

Log entries and checkpoints come first, then data files, then the journal, because each needs the one before. Every step
may be repeated: after a crash, the repair is run again.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec

from delta_log.delta.actions import Action, Add, CommitInfo, MetaData, Remove
from delta_log.delta.checkpoint import checkpoint_path, encode_checkpoint
from delta_log.delta.conflicts import Kind
from delta_log.delta.file_commits import replace_files, write_rows
from delta_log.delta.parquet import time_bounds
from delta_log.delta.snapshot import Snapshot
from delta_log.model.errors import Corruption, InvalidRequest, LakelogError, PlanOutdated
from delta_log.model.lost_ranges import LOST, LostRange, read_lost, write_lost
from delta_log.model.names import is_internal
from delta_log.model.types import DataFile
from delta_log.operations.check.check import Progress, say_nothing
from delta_log.operations.check.findings import CheckReport
from delta_log.operations.check.judge_log import HINT
from delta_log.operations.check.read_journal import JournalLook, load_journal
from delta_log.operations.check.read_table import open_live
from delta_log.operations.repair.actions import (
    Cure,
    EmptyEntry,
    GiveUp,
    KnowEpochs,
    PointToCheckpoint,
    ReplaceCheckpoint,
    RestoreFile,
    SettleJournal,
    WriteCheckpoint,
)
from delta_log.operations.repair.data_files import restored_rows, survey_file
from delta_log.operations.repair.empty_entry import empty_entry
from delta_log.operations.repair.log_entries import REPAIR
from delta_log.operations.repair.plan import Asked, RepairPlan, plan_epochs, plan_repair
from delta_log.operations.repair.settle_journal import settle_journal
from delta_log.root.root import Root, as_root, claim_epoch, open_root, read_topic_defaults
from delta_log.root.takeover import take_over
from delta_log.runtime.syscalls import Probe, no_probe
from delta_log.stores import Store
from delta_log.topics.topic_state import TopicState

#: The cures of one round let the next round see more: entries, then files, then the journal.
_ROUNDS: Final = 5
Clock = Callable[[], int]
Range = tuple[str, int, int, int]


@dataclass(frozen=True, slots=True)
class RepairReport:
    """The result of a repair: cures that were done, and what is left; `str` is the text to print at the end."""

    location: str
    done: tuple[Cure, ...]
    left: tuple[str, ...]
    checked: CheckReport
    dry_run: bool

    @property
    def exit_code(self) -> int:
        return 0 if not self.left and (self.dry_run or self.checked.sound) else 1

    def __str__(self) -> str:
        would = "would do" if self.dry_run else "did"
        lines = [f"not cured: {what}" for what in self.left]
        done, left = len(self.done), len(self.left)
        cures, things = "1 cure" if done == 1 else f"{done} cures", "1 thing is" if left == 1 else f"{left} things are"
        return "\n".join([*lines, f"{self.location}: {would} {cures}; {things} left"])


def repair(
    root: str | Path | Root,
    *,
    give_up: Iterable[Range] = (),
    dry_run: bool = False,
    say: Progress = say_nothing,
    probe: Probe = no_probe,
) -> RepairReport:
    """Plan, `say` the plan line by line, and carry it out. RootInUse while the root has an owner.

    `give_up` are ranges as (topic, partition, first offset, last offset), to be recorded as lost. InvalidRequest,
    and nothing is changed, if a part of them can still be read. A dry run needs no ownership.
    """
    place = as_root(root, probe=probe)
    open_root(place, create=False)
    asked = [Asked(topic, LostRange(partition, first, last)) for topic, partition, first, last in give_up]
    _check_ranges(asked)
    if dry_run:
        plan = plan_repair(place, asked, say_nothing)
        _say_plan(plan, say)
        return RepairReport(place.store.location, plan.cures, plan.left, plan.checked, dry_run=True)
    return _repair(place, asked, say, probe)


def _repair(place: Root, asked: Sequence[Asked], say: Progress, probe: Probe) -> RepairReport:
    done: list[Cure] = []
    place.hold()
    held = True
    try:
        if not place.locks:
            done += _take_over(place, say, probe)
        plan = plan_repair(place, asked, say_nothing)
        for _ in range(_ROUNDS):
            _say_plan(plan, say)
            if not plan.cures:
                break
            for cure in plan.cures:
                if isinstance(cure, SettleJournal):
                    place.let_go()
                    held = False
                    settle_journal(place, cure, probe)
                    place.hold()
                    held = True
                    asked = [*asked, *_skipped(cure)]
                else:
                    _carry_out(place, cure, probe)
                done.append(cure)
                probe("repair.cured")
            plan = plan_repair(place, asked, say_nothing)
    finally:
        if held:
            place.let_go()
    return RepairReport(place.store.location, tuple(done), plan.left, plan.checked, dry_run=False)


def _take_over(place: Root, say: Progress, probe: Probe) -> list[Cure]:
    """Take over a root without a lock: fences the former owner before anything is read that it could still change.

    The new epoch must be above all former ones: a cure that this needs is carried out first.
    """
    cures = plan_epochs(place.store)
    for cure in cures:
        say(f"cure: {cure}")
        _carry_out(place, cure, probe)
        probe("repair.cured")
    take_over(place, after=max(0, load_journal(place.store).end[0]))
    return cures


def _skipped(cure: SettleJournal) -> list[Asked]:
    """The skipped offsets, never assigned or lost: the tables of topics must record them as lost."""
    return [
        Asked(doubt.table, LostRange(doubt.partition, doubt.first, doubt.first + doubt.most - 1))
        for doubt in cure.doubts
        if not is_internal(doubt.table)
    ]


def _say_plan(plan: RepairPlan, say: Progress) -> None:
    for cure in plan.cures:
        say(f"cure: {cure}")


def _check_ranges(asked: Sequence[Asked]) -> None:
    for each in asked:
        numbers = each.lost
        if any(type(number) is not int for number in numbers) or type(each.topic) is not str:
            raise InvalidRequest(f"{each.topic!r} {tuple(numbers)} is no topic, partition, first and last offset")


def _carry_out(place: Root, cure: Cure, at: Probe) -> None:
    store = place.store
    match cure:
        case EmptyEntry():
            empty_entry(place, cure, at)
        case WriteCheckpoint():
            store.put(f"{cure.directory}/{checkpoint_path(cure.version)}", encode_checkpoint(cure.state)[0])
            at("repair.checkpoint_written")
        case ReplaceCheckpoint():
            store.put(f"{cure.directory}/{checkpoint_path(cure.state.version)}", encode_checkpoint(cure.state)[0])
            at("repair.checkpoint_written")
            store.delete(f"{cure.directory}/{checkpoint_path(cure.version)}")
        case PointToCheckpoint():
            _point(store, cure)
        case RestoreFile():
            _restore(store, cure, at)
        case GiveUp():
            _give_up(store, cure, at)
        case KnowEpochs():
            claim_epoch(store, store.now_ms(), read_topic_defaults(store), after=cure.newest)
        case SettleJournal():
            raise LakelogError("a journal is settled by who does not hold the root")


def _point(store: Store, cure: PointToCheckpoint) -> None:
    path = f"{cure.directory}/{HINT}"
    if cure.version < 0:
        store.delete(path)
    else:
        store.put(path, msgspec.json.encode({"version": cure.version, "size": cure.size}))


def _restore(store: Store, cure: RestoreFile, at: Probe) -> None:
    live = _opened(store, cure.table)
    journal = load_journal(store)
    rows = restored_rows(live, cure.file, journal.of(cure.table, live.id), journal)
    if rows is None:
        raise PlanOutdated(cure.table, f"the journal has not all of {cure.file.path} any more")
    file = cure.file
    fresh = write_rows(
        live.table,
        rows,
        file.partition,
        live.config.parquet_codec,
        file.min_timestamp_ms,
        file.max_timestamp_ms,
        file.modified_ms,
    )
    at("repair.file_written")
    replace_files(live.table, live.id, [file], [fresh], store.now_ms, data_change=False)


def _give_up(store: Store, cure: GiveUp, at: Probe) -> None:
    """Commit at once: unreadable files leave, files with their readable rows come, the lost range is recorded."""
    live = _opened(store, cure.table)
    journal = load_journal(store)
    fresh = [file for file in (_rest(live, file, journal) for file in cure.files) if file is not None]
    at("repair.file_written")

    def plan(snapshot: Snapshot) -> list[Action]:
        metadata = snapshot.metadata
        if metadata is None or any(not snapshot.has_file(file.path) for file in cure.files):
            raise PlanOutdated(cure.table, "a file that was to be given up has left it")
        lost = write_lost([*read_lost(metadata.configuration), cure.lost])
        info = CommitInfo(
            f"repair-{uuid.uuid4().hex}",
            store.now_ms(),
            REPAIR,
            read_version=snapshot.version,
            facts={"topicId": live.id, "lost": str(cure.lost)},
        )
        told = MetaData(
            metadata.id,
            metadata.schema,
            metadata.partition_columns,
            {**metadata.configuration, LOST: lost},
            metadata.created_ms,
        )
        gone = [Remove(file.path, file.partition, file.size, store.now_ms()) for file in cure.files]
        return [info, told, *gone, *map(Add, fresh)]

    live.table.commit(Kind.CONFIG, plan)


def _rest(live: TopicState, file: DataFile, journal: JournalLook) -> DataFile | None:
    """Write a new file with the readable rows of a file."""
    rows = survey_file(live, file, journal.of(live.name, live.id), journal).rows(live.rows.order)
    if rows is None:
        return None
    low, high = time_bounds(rows) if file.partition >= 0 else (0, 0)
    return write_rows(live.table, rows, file.partition, live.config.parquet_codec, low, high, file.modified_ms)


def _opened(store: Store, table: str) -> TopicState:
    live = open_live(store, table)
    if live is None:
        raise Corruption(table, "it is gone")
    return live
