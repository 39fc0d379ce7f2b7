"""How much of what is there a fetch gives."""

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from delta_log.fetch.fetch import check_range
from delta_log.fetch.fetch_result import FetchLimits, Gathered, between, fitting
from delta_log.model.errors import OffsetOutOfRange
from delta_log.model.schema import HEADER, HEADERS, RECORD_COLUMNS
from delta_log.reader import _chosen
from delta_log.records.row_codec import RowBlock, Run, headers_array, to_batches

HEADER_LISTS = st.none() | st.lists(st.tuples(st.text(max_size=4), st.none() | st.binary(max_size=9)), max_size=3).map(
    tuple
)


def batch_of(offsets: list[int], headers: list[Any] | None = None) -> pa.RecordBatch:
    """Rows as files and tails give them: values of as many bytes as the offset's last digit says."""
    runs = [
        Run(offset, RowBlock([None], [b"x" * (offset % 10)], 0, None if headers is None else [headers[index]]))
        for index, offset in enumerate(offsets)
    ]
    return to_batches(runs)[0].select(list(RECORD_COLUMNS))


rising = st.lists(st.integers(0, 50), min_size=1, max_size=20, unique=True).map(sorted)


@given(rising, st.integers(-2, 55), st.integers(-2, 55))
def test_between_is_a_filter_by_offset(offsets: list[int], low: int, high: int):
    found = between(batch_of(offsets), low, high).column("offset").to_pylist()
    assert found == [offset for offset in offsets if low <= offset < high]


@given(st.lists(HEADER_LISTS, min_size=1, max_size=8), st.integers(0, 400), st.integers(0, 3))
def test_as_many_rows_fit_as_their_sizes_say(headers: list[Any], room: int, skipped: int):
    batch = batch_of(list(range(len(headers))), headers).slice(min(skipped, len(headers) - 1))
    sizes = [
        24 + len(row["value"]) + sum(24 + len(h["key"].encode()) + len(h["value"] or b"") for h in row["headers"] or ())
        for row in batch.to_pylist()
    ]
    expected = next((n for n in range(len(sizes)) if sum(sizes[: n + 1]) > room), len(sizes))
    assert fitting(batch, room) == expected


def test_rows_fit_whatever_their_columns_are_cut_from():
    every = pa.array([{"key": "a" * n, "value": b"v" * n} for n in range(10)], HEADER)
    headers = pa.ListArray.from_arrays(pa.array([0, 1, 1, 3], pa.int32()), every.slice(5), type=HEADERS)
    batch = pa.record_batch({"offset": pa.array([1, 2, 3], pa.int64()), "headers": headers})
    sizes = [24 + 24 + 10, 24, 24 + 24 + 12 + 24 + 14]
    for rows in range(3):
        whole = sum(sizes[: rows + 1])
        assert (fitting(batch, whole), fitting(batch, whole - 1)) == (rows + 1, rows)
    assert (fitting(batch.slice(1), 24), fitting(batch.slice(2), sizes[2] - 1), fitting(batch.slice(2), sizes[2])) == (
        1,
        0,
        1,
    )
    nulls = {"key": pa.nulls(2, pa.binary()), "value": pa.nulls(2, pa.binary()), "headers": pa.nulls(2, HEADERS)}
    assert fitting(pa.record_batch(nulls), 47) == 1


def test_rows_fit_whatever_columns_they_have():
    batch = batch_of([1, 2, 3])
    assert fitting(batch.select(["offset"]), 48) == 2
    assert fitting(batch.select(["offset", "value"]), 48) == 1
    assert headers_array([None]).null_count == 1


@given(rising, st.integers(0, 50), st.integers(1, 25), st.integers(0, 2000), st.integers(0, 60))
def test_a_fetch_is_a_prefix_of_what_is_wanted_and_never_empty_where_there_is_something(
    offsets: list[int], start: int, records: int, size: int, end: int
):
    gathered = Gathered(start, FetchLimits(records, size))
    for part in (offsets[:3], offsets[3:7], offsets[7:]):
        if part:
            gathered.take(batch_of(part), end)
    found = [offset for batch in gathered.batches for offset in batch.column("offset").to_pylist()]
    wanted = [offset for offset in offsets if start <= offset < end]
    assert found == wanted[: len(found)]
    assert bool(found) == bool(wanted)
    assert len(found) <= records
    assert len(found) == 1 or sum(24 + offset % 10 for offset in found) <= max(size, 0) + 200
    if found:
        assert gathered.next_offset == found[-1] + 1
    if len(found) == records:
        assert gathered.full


def test_a_full_fetch_takes_nothing_more():
    gathered = Gathered(0, FetchLimits(records=2))
    gathered.take(batch_of([0, 1, 2]), 100)
    gathered.take(batch_of([3, 4]), 100)
    assert (gathered.next_offset, gathered.full) == (2, True)


@pytest.mark.parametrize(("offset", "fits"), [(4, False), (5, True), (9, True), (10, True), (11, False)])
def test_a_position_lies_from_the_start_to_the_end(offset: int, fits: bool):
    live: Any = type("Live", (), {"name": "t"})
    if fits:
        check_range(live, 0, offset, 5, 10)
        return
    with pytest.raises(OffsetOutOfRange) as refused:
        check_range(live, 0, offset, 5, 10)
    assert (refused.value.log_start_offset, refused.value.end_offset) == (5, 10)


def test_the_offset_is_always_the_first_column_and_each_comes_once():
    assert _chosen(("value", "offset", "value")) == ("offset", "value")
    assert _chosen(()) == ("offset",)
