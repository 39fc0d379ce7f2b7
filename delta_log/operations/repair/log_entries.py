"""Decides whether an unreadable newest log entry can be emptied. Pure.

    rows journaled ─▶ files written ─▶ ENTRY ─▶ entry read back ─▶ journal released

An append can be repeated as long as the journal has all of its rows. A rewrite or a removal keeps the files that it
takes out for a while: without the entry the table is as before. No other commit can be undone: settings, log starts,
and the creation and deletion of topics are only in their entry. The kind of an entry is known from its first line; if
that is gone, too, from the files that were written for it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import msgspec

from delta_log.delta.actions import Action, CommitInfo, Txn, decode_commit, is_sealed, without_seal
from delta_log.delta.conflicts import TOPIC_ID, commit_info
from delta_log.delta.snapshot import EPOCH_TXN, Snapshot
from delta_log.delta.topic_commits import PARTITIONS
from delta_log.journal.segment_scan import FoundFrame
from delta_log.model.errors import Corruption
from delta_log.operations.check.journal_vs_table import check_connection
from delta_log.operations.check.judge_log import LogVerdict
from delta_log.operations.repair.actions import EmptyEntry
from delta_log.records.payload_kinds import DECISION

_APPENDED: Final = re.compile(r"(?P<base>\d{20})-(?P<epoch>\d+)-(?P<segment>-?\d+)-(?P<position>\d+)\.parquet")
_REWRITTEN: Final = re.compile(r"(?P<base>\d{20})-(\d+-fold|job)-[0-9a-f]{32}\.parquet")
#: The operation of a repair's commits.
REPAIR: Final = "REPAIR"
_PUT_BACK: Final = "put it back from a backup"
CAVEAT: Final = "should it have been a change of settings or of a log start, make that again"


@dataclass(frozen=True, slots=True)
class Evidence:
    """The evidence about an unreadable newest entry: its bytes, files that no commit names, and the journal.

    `unnamed` are pairs of partition (0 outside of all) and name; `complete`: every file of the table before is there.
    """

    data: bytes
    unnamed: tuple[tuple[int, str], ...]
    complete: bool
    frames: tuple[FoundFrame, ...]


def decide_empty_entry(verdict: LogVerdict, directory: str, evidence: Evidence) -> EmptyEntry | str:
    """The cure, or the reason why there is none."""
    version, before = max(verdict.bad_entries), verdict.snapshot
    behind = [verdict.entries.get(later, []) for later in range(version + 1, verdict.newest + 1)]
    alone = len(verdict.bad_entries) == 1 and all(map(is_bar, behind))
    if not alone or before.version != version - 1 or before.metadata is None:
        return f"it is not the newest alone that is unreadable: {_PUT_BACK}"
    if is_foreign(evidence.data):
        return "it is whole, and somebody else wrote it: find out who"
    topic_id, name = before.configuration.get(TOPIC_ID, ""), directory.rpartition("/")[2]
    own = [each for each in evidence.frames if each.frame.topic == name and each.frame.kind != DECISION]
    if any(each.frame.topic_id != topic_id for each in own):
        return f"the journal has records of another life of the topic, which it may have begun: {_PUT_BACK}"
    info = first_line(evidence.data)
    takes = _taken_over(before, own)
    partitions = int(before.configuration.get(PARTITIONS, "1"))
    state = before if takes is None else _with_epoch(before, takes)
    apart = check_connection([each.frame for each in own], state, partitions, name)
    unsound = [each for each in own if not each.sound and each.frame.next_offset > before.end(each.frame.partition)]
    if apart or unsound:
        return f"the journal does not go on where the entry before ends: {_PUT_BACK}"
    why = _why_needless(before, info, evidence, own, takes)
    if not why[0]:
        return f"{why[1]}: {_PUT_BACK}"
    return EmptyEntry(directory, version, why[1], takes, verdict.newest, state.epoch)


def is_bar(actions: Sequence[Action]) -> bool:
    """True for an entry that a repair wrote to fence a former owner: it has nothing but the owner's epoch."""
    info = commit_info(actions)
    rest = [each for each in actions if each is not info and not (isinstance(each, Txn) and each.app_id == EPOCH_TXN)]
    return info is not None and info.operation == REPAIR and not rest


def is_foreign(data: bytes) -> bool:
    """True for an undamaged entry of another program: all of its lines can be read, and it has no checksum."""
    lines = data.splitlines()
    try:
        for line in lines:
            msgspec.json.decode(line)
    except msgspec.DecodeError:
        return False
    return bool(lines) and not is_sealed(data)


def first_line(data: bytes) -> CommitInfo | None:
    """The commit info in an entry's first line, if it can still be read."""
    try:
        return commit_info(decode_commit(without_seal(data.partition(b"\n")[0]), ""))
    except Corruption:
        return None


def _taken_over(before: Snapshot, own: Sequence[FoundFrame]) -> int | None:
    """The epoch that an entry must have made known: an owner does so before it assigns its first offset."""
    later = {e.frame.epoch for e in own if e.frame.next_offset > before.end(e.frame.partition)}
    return next(iter(later)) if len(later) == 1 and later != {before.epoch} and min(later) > before.epoch else None


def _with_epoch(before: Snapshot, epoch: int) -> Snapshot:
    state = before.branch()
    state.txns[EPOCH_TXN] = epoch
    return state


def _why_needless(
    before: Snapshot, info: CommitInfo | None, evidence: Evidence, own: Sequence[FoundFrame], takes: int | None
) -> tuple[bool, str]:
    appended = [(p, found) for p, name in evidence.unnamed if (found := _APPENDED.fullmatch(name)) is not None]
    beyond = [(p, found) for p, found in appended if int(found["base"]) >= before.end(p)]
    if not all(_is_journaled(found, p, own) for p, found in beyond):
        return False, "files were written for it whose records the journal does not have"
    if info is None:
        return _why_by_files(before, evidence, beyond, takes)
    if info.operation == "WRITE":
        return _why_append(before, info, own)
    if info.operation in ("OPTIMIZE", "DELETE"):
        all_ = "all" if evidence.complete else "not all"
        return evidence.complete, f"it took out files, and {all_} of those are still there"
    return False, f"it was {info.operation}, which nothing else tells of"


def _why_by_files(
    before: Snapshot, evidence: Evidence, beyond: Sequence[tuple[int, re.Match[str]]], takes: int | None
) -> tuple[bool, str]:
    """Judge an entry without a readable line, by the files that were written for it and that no commit names."""
    if beyond:
        return True, f"files were written to be appended by it, and the journal has their records; {CAVEAT}"
    if takes is not None:
        return True, "it made an owner known, whose records the journal has"
    bases = {file.base_offset for file in before.all_files()}
    rewritten = [found for _, name in evidence.unnamed if (found := _REWRITTEN.fullmatch(name)) is not None]
    if evidence.complete and any(int(found["base"]) in bases for found in rewritten):
        return True, f"a file was written to stand for others, and all of those are still there; {CAVEAT}"
    return False, "nothing tells what it was"


def _why_append(before: Snapshot, info: CommitInfo, own: Sequence[FoundFrame]) -> tuple[bool, str]:
    ranges: dict[str, list[int]] = info.facts.get("ranges", {})
    for partition, (begin, end) in ranges.items():
        index = int(partition)
        covered = before.end(index)
        for each in sorted(own, key=lambda found: found.frame.base_offset):
            if each.frame.partition == index and each.frame.base_offset <= covered and each.sound:
                covered = max(covered, each.frame.next_offset)
        if begin != before.end(index) or covered < end:
            return False, f"the journal lacks records that it appended, {covered} to {end - 1} of partition {index}"
    return True, "all records that it appended are in the journal" if ranges else "it appended nothing"


def _is_journaled(found: re.Match[str], partition: int, own: Sequence[FoundFrame]) -> bool:
    """Check that the journal has the newest frame of a file's commit, named in the file name, and its first row."""
    place = int(found["epoch"]), int(found["segment"]), int(found["position"])
    base = int(found["base"])
    return any((e.place.epoch, e.place.segment, e.place.position) == place and e.sound for e in own) and any(
        e.frame.partition == partition and e.frame.base_offset <= base < e.frame.next_offset and e.sound for e in own
    )
