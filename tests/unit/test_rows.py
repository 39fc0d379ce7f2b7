"""Records in columns: what goes into the journal comes out, and is in Arrow what it was as objects."""

from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from delta_log.model.schema import FILE_SCHEMA
from delta_log.model.types import ProducerStamp
from delta_log.records.row_codec import (
    CONTENT_SCHEMA,
    ArrowRows,
    RowBlock,
    Rows,
    Run,
    content_batch,
    decode_arrow,
    decode_block,
    encode_arrow,
    encode_block,
    headers_array,
    to_batches,
)
from delta_log.records.sequences import join_sequences, pack_sequences

Row = dict[str, Any]


def rows_of(runs: Sequence[Run]) -> list[Row]:
    batches = to_batches(runs)
    assert all(batch.schema.equals(FILE_SCHEMA) for batch in batches)
    for batch in batches:
        batch.validate(full=True)
    table = pa.Table.from_batches(batches, schema=FILE_SCHEMA)
    times = table.column("timestamp").cast(pa.int64()).to_pylist()
    return [row | {"timestamp": time} for row, time in zip(table.to_pylist(), times, strict=True)]


def spread(given: int | bytes | list[int], count: int) -> list[int]:
    """The numbers of one run."""
    return join_sequences([given], np.array([count])).tolist()


def expected(base: int, block: RowBlock, stamp: ProducerStamp | None) -> list[Row]:
    """What to_batches must make of a block, said the slow way."""
    count = len(block)
    times = [block.timestamps] * count if isinstance(block.timestamps, int) else block.timestamps
    headers = block.headers or [None] * count
    given_sequences = block.sequences
    sequences: Sequence[int | None] = [None] * count if given_sequences is None else spread(given_sequences, count)
    return [
        {
            "offset": base + index,
            "timestamp": times[index] * 1000,
            "key": block.keys[index],
            "value": block.values[index],
            "headers": None if (own := headers[index]) is None else [{"key": n, "value": v} for n, v in own],
            "producer_id": stamp.producer_id if stamp else None,
            "producer_epoch": stamp.epoch if stamp else None,
            "sequence": sequences[index] if stamp else None,
        }
        for index in range(count)
    ]


maybe_bytes = st.none() | st.binary(max_size=8)
header_lists = st.lists(st.tuples(st.text(max_size=3), maybe_bytes), max_size=3).map(tuple)
times = st.integers(0, 253_402_300_799_999)
int64s = st.integers(0, 2**63 - 100)


@st.composite
def blocks(draw: st.DrawFn, *, stamped: bool = False) -> RowBlock:
    count = draw(st.integers(1, 6))

    def column(values: st.SearchStrategy[Any]) -> list[Any]:
        return draw(st.lists(values, min_size=count, max_size=count))

    return RowBlock(
        column(maybe_bytes),
        column(maybe_bytes),
        draw(times) if draw(st.booleans()) else column(times),
        column(st.none() | header_lists) if draw(st.booleans()) else None,
        (draw(int64s) if draw(st.booleans()) else sorted(column(int64s))) if stamped else None,
    )


@st.composite
def runs(draw: st.DrawFn) -> tuple[list[Run], list[Row]]:
    """Runs one behind the other, with holes, in either form; and the rows that they are."""
    made: list[Run] = []
    rows: list[Row] = []
    offset = draw(st.integers(0, 1000))
    for _ in range(draw(st.integers(1, 4))):
        stamp = ProducerStamp("p", draw(st.integers(0, 2**31 - 1)), 0) if draw(st.booleans()) else None
        block = draw(blocks(stamped=stamp is not None))
        offset += draw(st.sampled_from([0, 0, 5]))
        form: Rows = ArrowRows(content_batch([block]), block.sequences) if draw(st.booleans()) else block
        made.append(Run(offset, form, stamp))
        rows += expected(offset, block, stamp)
        offset += len(block)
    return made, rows


@given(blocks(stamped=True))
def test_a_block_comes_back_from_its_bytes(block: RowBlock):
    for payload in (encode_block(block), memoryview(encode_block(block))):
        back = decode_block(payload)
        assert (
            msgspec.structs.replace(block, **{name: getattr(back, name) for name in block.__struct_fields__}) == block
        )


@given(blocks(stamped=True))
def test_arrow_comes_back_from_its_bytes(block: RowBlock):
    rows = ArrowRows(content_batch([block]), block.sequences)
    back = decode_arrow(memoryview(encode_arrow(rows)))
    assert back.sequences == rows.sequences
    assert back.batch.equals(rows.batch)
    assert back.batch.schema.equals(CONTENT_SCHEMA)


@given(runs())
def test_runs_of_either_form_become_the_rows_that_they_are(case: tuple[list[Run], list[Row]]):
    given_runs, rows = case
    assert rows_of(given_runs) == rows


@given(runs())
def test_runs_become_the_same_rows_after_their_way_through_the_journal(case: tuple[list[Run], list[Row]]):
    given_runs, rows = case
    replayed = [
        Run(
            run.base_offset,
            decode_arrow(encode_arrow(run.rows))
            if isinstance(run.rows, ArrowRows)
            else decode_block(encode_block(run.rows)),
            run.stamp,
        )
        for run in given_runs
    ]
    assert rows_of(replayed) == rows


def test_a_slice_of_arrow_carries_its_own_rows_alone():
    block = RowBlock([b"a" * 1000, b"b", None], [b"1", None, b"3"], [1, 2, 3], [None, (("h", None),), ()])
    whole = content_batch([block])
    payload = encode_arrow(ArrowRows(whole.slice(1, 2)))
    assert len(payload) < 1000
    assert decode_arrow(payload).batch.to_pylist() == whole.to_pylist()[1:]


def test_no_runs_are_no_rows():
    assert to_batches([]) == []


@pytest.mark.parametrize(
    "column",
    [
        [None, None],
        [(), None],
        [(("a", b""), ("a", None)), (), None, (("", b"x"),)],
    ],
    ids=repr,
)
def test_no_headers_and_an_empty_list_of_them_are_kept_apart(column: list[Any]):
    made = headers_array(column)
    made.validate(full=True)
    assert made.to_pylist() == [
        None if headers is None else [{"key": name, "value": value} for name, value in headers] for headers in column
    ]


def test_offsets_that_are_not_dense_are_kept():
    block = RowBlock([None], [b"v"], 0)
    assert [row["offset"] for row in rows_of([Run(3, block), Run(9, block)])] == [3, 9]


def test_the_largest_offsets_fit():
    block = RowBlock([None] * 2, [b"v"] * 2, 0)
    assert [row["offset"] for row in rows_of([Run(2**63 - 3, block)])] == [2**63 - 3, 2**63 - 2]


def test_sequences_of_one_partition_are_packed_and_come_back():
    for places in (range(1, 40, 4), range(4, 4096, 7), range(4, 9000, 7), range(9), [0, 7, 8], np.array([3, 5])):
        packed = pack_sequences(2**40, places)
        assert spread(packed, len(places)) == [2**40 + at for at in places]
    assert len(pack_sequences(7, range(0, 1000, 4))) == 8 + 4 * 250
    assert spread([9, 4], 2) == [9, 4], "as frames of before have them"


def test_numbers_of_several_senders_come_as_one_column_whatever_form_each_has():
    several: list[Any] = [5, pack_sequences(2**40, [1, 6]), None, [9, 4], 0]
    joined = join_sequences(several, np.array([3, 2, 1, 2, 5000])).tolist()
    assert joined[:5] == [5, 6, 7, 2**40 + 1, 2**40 + 6]
    assert joined[6:8] == [9, 4]
    assert joined[8:] == list(range(5000))
    assert join_sequences(several[:3], np.array([3, 2, 1])).tolist()[:5] == joined[:5]
