"""The rows that a crowd of small requests brings to one partition travel as one frame."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from delta_log import Log, Record
from delta_log.request import prepare_records
from delta_log.rows import RowBlock, Run, merge_blocks, to_batches
from delta_log.sequencer import Group
from delta_log.turns import Unit

HEADERS = st.none() | st.lists(st.tuples(st.text(max_size=3), st.none() | st.binary(max_size=3)), max_size=2).map(tuple)
RECORDS = st.lists(st.tuples(st.none() | st.binary(max_size=4), st.none() | st.binary(max_size=4), HEADERS), min_size=1)


@st.composite
def blocks(draw):
    records = draw(RECORDS)
    times = draw(st.integers(0, 10) | st.lists(st.integers(0, 10), min_size=len(records), max_size=len(records)))
    headers = [each[2] for each in records]
    return RowBlock([e[0] for e in records], [e[1] for e in records], times, headers if any(headers) else None)


@given(st.lists(blocks(), min_size=1, max_size=5))
def test_merged_blocks_hold_the_same_rows_in_the_same_order(given_blocks):
    bases = [sum(map(len, given_blocks[:index])) for index in range(len(given_blocks))]
    apart = to_batches([Run(base, block) for base, block in zip(bases, given_blocks, strict=True)])
    assert to_batches([Run(0, merge_blocks(given_blocks))])[0].to_pylist() == apart[0].to_pylist()


class Asked(Unit):
    def lead(self): ...

    def done(self): ...


@pytest.mark.parametrize("large", [False, True])
def test_small_requests_of_a_group_become_one_frame_a_partition_and_what_is_no_row_among_them_parts_them(large):
    with Log.open("memory://") as log:
        log.create_topic("t", 1)
        log.append("t", [Record(b"first")])
        live, writer = log._live("t"), log._running.writer
        sizes = [1, 2, 70, 1, 3] if large else [1, 2, 1, 3]
        requests = [[Record(b"%d-%d" % (of, at)) for at in range(size)] for of, size in enumerate(sizes)]
        units = [Asked(live, prepare_records(live.rules, records, first_null=0, now_ms=7)) for records in requests]
        group = Group(units)
        writer.sequencer.sequence(group)
        writer.finish(group, writer.journal.append(group.frames, group.payloads))
        values = [record.value for record in log.read("t", 0, 1).records()]
        placed = [(unit.result.ranges[0].base_offset, unit.result.ranges[0].count) for unit in units]
    assert [frame.count for frame in group.frames] == ([3, 70, 4] if large else [7])
    assert placed == [(1 + sum(sizes[:of]), size) for of, size in enumerate(sizes)]
    assert values == [record.value for records in requests for record in records]
