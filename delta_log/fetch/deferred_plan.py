"""Plans which rows a fetch can promise from a file's footer alone, before any row is decoded. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from delta_log.fetch.fetch_result import FetchLimits
from delta_log.model.types import RowGroup

#: Bytes that a row may take in Arrow beyond its bytes in a page, where a null is only a bit: the start positions of its
#: key, value and headers, and one validity bit for each column.
_MORE_PER_ROW: Final = 13
#: Size of one decoding step: smaller steps cost more thread switches, larger ones more memory.
_STEP_BYTES: Final = 1024 * 1024


class Promise(NamedTuple):
    """Rows of one row group, after `skipped` ones. No later row has an offset below `next_offset`."""

    number: int
    skipped: int
    rows: int
    size: int
    next_offset: int


class LaterPlan(NamedTuple):
    """Promises of one file. `full`: nothing may follow, as a limit is reached or cannot be kept without decoding."""

    promises: list[Promise]
    full: bool


def plan_later(groups: Iterable[RowGroup], start: int, end: int, room: FetchLimits) -> LaterPlan:
    """Plan promises for the offsets from `start` to below `end`, from row groups in their order.

    A row group is promised whole, because the size of a part is unknown. Only where offsets are dense can it be cut:
    there the number of rows up to an offset is known.
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
    """Split promises into decoding steps; a small last step is merged into the one before it."""
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
