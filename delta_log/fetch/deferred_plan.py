"""Which rows a fetch can promise by what a footer says of them, before any of them is decoded. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from delta_log.fetch.fetch_result import FetchLimits
from delta_log.model.types import RowGroup

#: What a row may take in Arrow beside what it takes in a page, where a null is but a bit: where its key, its value and
#: its headers begin, and a bit for each column.
_MORE_PER_ROW: Final = 13
#: Decoded at once: less would cost more changes of thread, more would be in memory at once.
_STEP_BYTES: Final = 1024 * 1024


class Promise(NamedTuple):
    """Rows of one row group, behind those that are skipped. None that follow have an offset below `next_offset`."""

    number: int
    skipped: int
    rows: int
    size: int
    next_offset: int


class LaterPlan(NamedTuple):
    """`full` where nothing may follow: a limit is reached, or cannot be kept without decoding."""

    promises: list[Promise]
    full: bool


def plan_later(groups: Iterable[RowGroup], start: int, end: int, room: FetchLimits) -> LaterPlan:
    """What can be promised of row groups, in their order, for the offsets from `start` to below `end`.

    Row groups are promised whole, as what a part of one takes is not known, but for where offsets are dense: there the
    number of rows up to one of them is.
    """
    promises: list[Promise] = []
    rows = size = 0
    if start >= end:
        return LaterPlan(promises, full=False)
    for group in groups:
        taken = group.size + _MORE_PER_ROW * group.rows
        first, last = max(group.first, start), min(group.last, end - 1)
        is_dense = group.last - group.first + 1 == group.rows
        is_whole = first == group.first and last == group.last
        kept = min(last - first + 1 if is_dense else group.rows, room.records - rows)
        if size + taken > room.bytes or not (is_dense or (is_whole and kept == group.rows)):
            return LaterPlan(promises, full=True)
        following = first + kept if is_dense else group.last + 1
        promises.append(Promise(group.number, first - group.first, kept, taken, following))
        rows, size = rows + kept, size + taken
        if rows == room.records:
            return LaterPlan(promises, full=True)
    return LaterPlan(promises, full=False)


def cut_steps(promises: Sequence[Promise]) -> list[list[Promise]]:
    """What is decoded at once; a little at the end goes with what is before it."""
    steps: list[list[Promise]] = []
    held = _STEP_BYTES
    for promise in promises:
        if held >= _STEP_BYTES:
            steps.append([])
            held = 0
        steps[-1].append(promise)
        held += promise.size
    if len(steps) > 1 and held < _STEP_BYTES // 4:
        steps[-2:] = [steps[-2] + steps[-1]]
    return steps
