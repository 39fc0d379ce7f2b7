"""The rows that a crowd of small requests brings to one partition travel as one frame."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from delta_log import Log, ProducerStamp, Record
from delta_log.append.commit_queue import Unit
from delta_log.append.sequencer import Group
from delta_log.records.prepare import prepare_records
from delta_log.records.row_codec import RowBlock, Run, decode_block, encode_block, merge_blocks, to_batches

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


STAMPS = st.none() | st.builds(ProducerStamp, st.sampled_from("pq"), st.integers(0, 3), st.integers(0, 50))


@given(st.lists(st.tuples(blocks(), STAMPS, st.booleans()), min_size=1, max_size=5))
def test_merged_blocks_say_who_sent_each_row(given_blocks):
    """Sequences are dense, or, where a request was spread over partitions, are not."""
    apart, base = [], 0
    for block, stamp, spread in given_blocks:
        if stamp is not None:
            many = range(stamp.sequence, stamp.sequence + 3 * len(block), 3)
            block.sequences = list(many) if spread else stamp.sequence
        apart.append(Run(base, block, stamp))
        base += len(block)
    merged = merge_blocks([block for block, _, _ in given_blocks], [stamp for _, stamp, _ in given_blocks])
    wanted = to_batches(apart)[0].to_pylist()
    for form in (merged, decode_block(encode_block(merged))):
        assert to_batches([Run(0, form)])[0].to_pylist() == wanted


class Asked(Unit):
    def lead(self): ...

    def done(self): ...


@pytest.mark.parametrize("numbered", [False, True])
@pytest.mark.parametrize("large", [False, True])
def test_small_requests_of_a_group_become_one_frame_a_partition_and_what_is_no_row_among_them_parts_them(
    large, numbered
):
    with Log.open("memory://") as log:
        log.create_topic("t", 1)
        log.append("t", [Record(b"first")], producer=ProducerStamp("other", 0, 0))
        live, writer = log._live("t"), log._running.writer
        sizes = [1, 2, 70, 1, 3] if large else [1, 2, 1, 3]
        requests = [[Record(b"%d-%d" % (of, at)) for at in range(size)] for of, size in enumerate(sizes)]
        stamps = [ProducerStamp(f"p{of}", 0, 0) if numbered and of != 1 else None for of in range(len(sizes))]
        prepared = [
            prepare_records(live.rules, records, first_null=0, now_ms=7, stamp=stamp)
            for records, stamp in zip(requests, stamps, strict=True)
        ]
        units = [Asked(live, each) for each in prepared]
        group = Group(units)
        writer.sequencer.sequence(group)
        writer.finish(group, writer.journal.append(group.frames, group.payloads))
        values = [record.value for record in log.read("t", 0, 1).records()]
        placed = [(unit.result.ranges[0].base_offset, unit.result.ranges[0].count) for unit in units]
    counts = [3, 70, 4] if large else [7]
    assert [frame.count for frame in group.frames] == counts + [sum(map(bool, stamps))] * numbered
    assert placed == [(1 + sum(sizes[:of]), size) for of, size in enumerate(sizes)]
    assert values == [record.value for records in requests for record in records]
