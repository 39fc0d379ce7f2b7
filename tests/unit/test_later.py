"""What is promised by a footer is what is loaded: rows, their number, and where to go on."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from delta_log.delta.checksums import seal
from delta_log.delta.parquet import OpenFile
from delta_log.fetch.deferred_plan import Promise, cut_steps, plan_later
from delta_log.fetch.deferred_rows import DeferredRows, OpenFileLimit
from delta_log.fetch.fetch_result import NO_LIMIT, FetchLimits
from delta_log.model.errors import Corruption
from delta_log.model.schema import FILE_SCHEMA, RECORD_COLUMNS
from delta_log.model.types import RowGroup
from delta_log.stores import MemoryStore

MIB = 1024 * 1024
rising = st.lists(st.integers(0, 60), min_size=1, max_size=30, unique=True).map(sorted)
dense = st.tuples(st.integers(0, 20), st.integers(1, 30)).map(lambda given: list(range(given[0], sum(given))))


def stored(offsets: list[int], per_group: int) -> MemoryStore:
    table = pa.Table.from_pylist(
        [{"offset": n, "timestamp": n, "value": b"x" * (n % 10)} for n in offsets], FILE_SCHEMA
    )
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, row_group_size=per_group, use_dictionary=False, write_page_checksum=True)
    store = MemoryStore()
    store.put("file", seal(sink.getvalue()))
    return store


def loaded(later: DeferredRows) -> list[pa.RecordBatch]:
    batches: list[pa.RecordBatch] = []
    while (step := later.take()) is not None:
        batches += step.load()
    return batches


def offsets_of(batches: list[pa.RecordBatch]) -> list[int]:
    return [offset for batch in batches for offset in batch.column("offset").to_pylist()]


@example([0, 1], 2, 1, 1, 1, 5000)  # nothing is asked for, amid a row group
@given(
    rising | dense, st.integers(1, 8), st.integers(0, 65), st.integers(0, 65), st.integers(1, 40) | st.just(NO_LIMIT),
    st.integers(0, 5000),
)  # fmt: skip
def test_a_promise_is_kept(offsets: list[int], per_group: int, start: int, end: int, records: int, size: int):
    room = OpenFileLimit(1)
    later = DeferredRows(RECORD_COLUMNS, room)
    file = later.open(stored(offsets, per_group), "file")
    assert file is not None
    promises, full = plan_later(file.row_groups("offset", start, end), start, end, FetchLimits(records, size))
    later.add(file, promises, lambda error: error)
    batches = loaded(later)
    found = offsets_of(batches)
    wanted = [offset for offset in offsets if start <= offset < end]
    assert found == wanted[: len(found)]
    assert len(found) == later.rows <= records
    assert sum(batch.nbytes for batch in batches) <= later.size <= size
    if promises:
        following = promises[-1].next_offset
        assert found[-1] < following <= max(end, found[-1] + 1)
        assert not [offset for offset in wanted if found[-1] < offset < following]
    assert full or found == wanted
    assert room.take(), "the file is closed"


def group(number: int, first: int, rows: int, *, last: int | None = None, size: int = 100) -> RowGroup:
    return RowGroup(number, first, first + rows - 1 if last is None else last, rows, size)


def test_where_offsets_are_dense_a_promise_may_begin_and_end_anywhere():
    groups = [group(0, 0, 10), group(1, 10, 10), group(2, 20, 10)]
    promises, full = plan_later(groups, 3, 25, FetchLimits())
    assert [(p.number, p.skipped, p.rows, p.next_offset) for p in promises] == [
        (0, 3, 7, 10),
        (1, 0, 10, 20),
        (2, 0, 5, 25),
    ]
    assert not full
    promises, full = plan_later(groups, 3, 30, FetchLimits(records=9))
    assert [(p.rows, p.next_offset) for p in promises] == [(7, 10), (2, 12)]
    assert full


def test_where_offsets_are_not_dense_only_whole_row_groups_are_promised():
    sparse = [group(0, 0, 5, last=9), group(1, 12, 5, last=19), group(2, 20, 10)]
    assert plan_later(sparse, 1, 30, FetchLimits()) == ([], True)
    assert plan_later(sparse, 0, 15, FetchLimits()) == ([Promise(0, 0, 5, 100 + 5 * 13, 10)], True)
    assert [p.next_offset for p in plan_later(sparse, 0, 30, FetchLimits()).promises] == [10, 20, 30]
    assert [p.rows for p in plan_later(sparse, 0, 30, FetchLimits(records=7)).promises] == [5]


def test_what_does_not_fit_or_of_which_nothing_is_said_is_not_promised():
    groups = [group(0, 0, 10), group(1, 10, 10, size=1000)]
    assert [p.number for p in plan_later(groups, 0, 20, FetchLimits(bytes=500)).promises] == [0]
    assert plan_later(groups, 0, 20, FetchLimits(bytes=100)) == ([], True)
    unsaid = [RowGroup(0, -(1 << 63), 1 << 63, 10, 100)]
    assert plan_later(unsaid, 0, 20, FetchLimits()) == ([], True)


@given(st.lists(st.integers(1, 3 * MIB), max_size=12))
def test_steps_are_neither_tiny_nor_much_larger_than_they_must_be(sizes: list[int]):
    promises = [Promise(number, 0, 1, size, number + 1) for number, size in enumerate(sizes)]
    steps = cut_steps(promises)
    assert [promise for step in steps for promise in step] == promises
    assert all(steps)
    for step in steps[:-1]:
        assert sum(p.size for p in step) >= MIB
    if len(steps) > 1:
        assert sum(p.size for p in steps[-1]) >= MIB // 4
        assert all(sum(p.size for p in step[:-1]) < MIB for step in steps[:-1])


def begun(offsets: list[int], per_group: int, room: OpenFileLimit) -> DeferredRows:
    later = DeferredRows(RECORD_COLUMNS, room)
    file = later.open(stored(offsets, per_group), "file")
    assert file is not None
    found = [
        promise._replace(size=MIB)
        for promise in plan_later(file.row_groups("offset", 0, 99), 0, 99, FetchLimits()).promises
    ]
    later.add(file, found, lambda error: LookupError(str(error)))
    return later


def test_a_file_is_open_until_its_last_step_is_done_whatever_the_order():
    room = OpenFileLimit(1)
    later = begun(list(range(30)), 10, room)
    steps = [later.take(), later.take(), later.take()]
    assert later.take() is None
    assert [offsets_of(step.load())[0] for step in reversed(steps) if step is not None] == [20, 10, 0]
    assert room.take()


def test_what_is_closed_gives_only_what_was_taken_before():
    room = OpenFileLimit(1)
    later = begun(list(range(30)), 10, room)
    step = later.take()
    later.close()
    later.close()
    assert later.take() is None
    assert not room.take(), "a step that was taken has its file"
    assert step is not None
    assert len(offsets_of(step.load())) == 10
    assert room.take()


def test_what_nobody_holds_any_more_is_closed():
    room = OpenFileLimit(1)
    later = begun(list(range(30)), 10, room)
    assert not room.take()
    del later
    assert room.take()


def test_no_more_files_are_opened_than_there_is_room_for():
    room = OpenFileLimit(1)
    later = begun([1], 1, room)
    other = DeferredRows(RECORD_COLUMNS, room)
    assert other.open(MemoryStore(), "file") is None
    later.close()
    with pytest.raises(FileNotFoundError):
        other.open(MemoryStore(), "file")
    assert other.open(stored([1], 1), "file") is not None, "what could not be opened takes no room"


def test_rows_that_are_not_those_of_the_footer_are_an_error(monkeypatch: pytest.MonkeyPatch):
    """Whatever a footer says and no page contradicts: the answer's head must not have lied."""
    room = OpenFileLimit(1)
    whole = OpenFile.read

    def fewer(file: OpenFile, *given: Any) -> pa.Table:
        return whole(file, *given).slice(1)

    monkeypatch.setattr(OpenFile, "read", fewer)
    later = begun(list(range(10)), 10, room)
    step = later.take()
    assert step is not None
    with pytest.raises(LookupError, match="its rows are not those") as told:
        step.load()
    assert isinstance(told.value.__cause__, Corruption)
    assert room.take()
