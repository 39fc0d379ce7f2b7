"""One read of many partitions keeps its budget, leaves out nothing, and starves none."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from delta_log import Fetched
from ingest_api.routes.records.merged_read import read_merged, turns_of

SIZE = 8


class Partitions:
    """`counts` records each, every one of `SIZE` bytes, from offset 0 on."""

    def __init__(self, counts: list[int]) -> None:
        self.counts = counts
        self.reads = 0

    def read(self, partition: int, offset: int, records: int, size: int) -> Fetched:
        self.reads += 1
        assert records >= 1
        assert size >= 1
        end = self.counts[partition]
        count = min(end - offset, records, max(1, size // SIZE))
        batch = pa.record_batch({"offset": pa.array(range(offset, offset + count), pa.int64())})
        batches = [batch] if count else []
        return Fetched("t", partition, batches, offset + count, end, 0, batch.schema)


COUNTS = st.lists(st.integers(0, 12), min_size=1, max_size=8)


@given(COUNTS, st.integers(1, 40), st.integers(1, 400))
def test_repeated_reads_give_everything_once_and_in_order_within_their_budget(
    counts: list[int], records: int, size: int
):
    partitions = Partitions(counts)
    positions = dict.fromkeys(range(len(counts)), 0)
    seen: dict[int, list[int]] = {partition: [] for partition in positions}
    for _ in range(sum(counts) + 1):
        before = positions
        found, positions = read_merged(partitions.read, before, records, size)
        given_now = sum(each.count for each in found)
        assert given_now <= records
        assert given_now * SIZE < size + SIZE
        for each in found:
            seen[each.partition] += each.batches[0].column("offset").to_pylist()
        for partition, offset in positions.items():
            assert offset == len(seen[partition])
        if positions == before:
            break
    assert seen == {partition: list(range(count)) for partition, count in enumerate(counts)}


@given(COUNTS, st.integers(1, 40))
def test_a_read_that_has_room_gives_all_that_there_is(counts: list[int], spare: int):
    partitions = Partitions(counts)
    found, _ = read_merged(partitions.read, dict.fromkeys(range(len(counts)), 0), sum(counts) + spare, 10_000)
    assert sum(each.count for each in found) == sum(counts)


@given(COUNTS)
def test_a_budget_of_records_is_used_up(counts: list[int]):
    half = max(1, sum(counts) // 2)
    found, _ = read_merged(Partitions(counts).read, dict.fromkeys(range(len(counts)), 0), half, 10_000)
    assert sum(each.count for each in found) == min(half, sum(counts))


def test_each_partition_has_its_turn_however_much_the_others_have():
    partitions = Partitions([1000, 1000, 1, 1000])
    positions = dict.fromkeys(range(4), 0)
    for _ in range(8):
        _, positions = read_merged(partitions.read, positions, 1, 1)
    assert positions[2] == 1
    assert min(positions.values()) >= 1


def test_the_order_of_turns_depends_on_where_the_partitions_are():
    assert turns_of({0: 0, 1: 0, 2: 0}) == [0, 1, 2]
    assert turns_of({0: 1, 1: 0, 2: 0}) == [1, 2, 0]
    assert turns_of({}) == []
