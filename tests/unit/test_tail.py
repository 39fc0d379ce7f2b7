"""The live end of a partition: what is visible, who is woken, and what stays at hand."""

import pyarrow as pa
import pytest

from delta_log.journal.group_format import Frame, Place, checksum
from delta_log.records.payload_kinds import ROWS
from delta_log.records.row_codec import RowBlock, Run, encode_block, to_batches
from delta_log.topics.partition_state import Chunk, PartitionState, Waiter, load_batches


class Journal:
    def __init__(self) -> None:
        self.payloads: dict[Place, bytes] = {}
        self.reads = 0

    def read(self, place: Place) -> bytes:
        self.reads += 1
        return self.payloads[place]


def chunk(base: int, count: int, journal: Journal | None = None, *, lost: bool = False) -> Chunk:
    """Values are offsets; in memory, or in the journal when one is given."""
    block = RowBlock([None] * count, [b"%d" % i for i in range(base, base + count)], 0)
    payload = encode_block(block)
    frame = Frame(ROWS, "t", "id", 0, base, count, 1, len(payload), checksum(payload), 0)
    place = Place(1, 0, base, len(payload))
    if journal is None:
        return Chunk(base, count, len(payload), frame, place, Run(base, block), lost=lost)
    journal.payloads[place] = payload
    return Chunk(base, count, len(payload), frame, place, lost=lost)


def tail_of(*chunks: Chunk, tabled: int = 0) -> PartitionState:
    tail = PartitionState(0, tabled)
    for each in chunks:
        tail.add(each)
        tail.log_end_offset = each.next_offset
        tail.advance(each.next_offset)
    return tail


def one(base: int) -> Chunk:
    return chunk(base, 1)


def bases(chunks: list[Chunk]) -> list[int]:
    return [each.base_offset for each in chunks]


def arrow_of(chunks: list[Chunk]) -> pa.RecordBatch:
    return load_batches(chunks, Journal())[0]


def offsets(batches: list[pa.RecordBatch]) -> list[int]:
    return [offset for batch in batches for offset in batch.column("offset").to_pylist()]


def test_a_new_tail_holds_nothing_beyond_the_table():
    tail = PartitionState(3, 10)
    assert (tail.log_start_offset, tail.first, tail.table_offset, tail.high_watermark, tail.log_end_offset) == (
        3,
        10,
        10,
        10,
        10,
    )
    assert tail.chunks_from(3, 100) == []


@pytest.mark.parametrize(
    ("offset", "count", "found"),
    [
        (10, 1, [10]),
        (12, 1, [10]),
        (12, 2, [10, 13]),
        (13, 100, [13, 20]),
        (10, 100, [10, 13, 20]),
        (22, 5, [20]),
        (5, 6, [10]),
        (5, 5, []),
        (25, 5, []),
    ],
)
def test_the_chunks_that_hold_the_wanted_offsets_are_found(offset: int, count: int, found: list[int]):
    tail = tail_of(chunk(10, 3), chunk(13, 7), chunk(20, 5), tabled=10)
    assert bases(tail.chunks_from(offset, count)) == found


def test_what_is_not_durable_yet_is_not_given():
    tail = tail_of(chunk(0, 3))
    tail.add(chunk(3, 3))
    assert bases(tail.chunks_from(0, 100)) == [0]


def test_a_waiter_is_woken_once_and_only_when_its_offset_is_visible():
    tail, woken = PartitionState(0, 5), list[int]()
    assert tail.wait(Waiter(5, lambda: woken.append(5)))
    assert tail.wait(Waiter(8, lambda: woken.append(8)))
    assert not tail.wait(Waiter(4, lambda: woken.append(4)))
    for end in (5, 6, 8, 9, 10):
        for waiter in tail.advance(end):
            waiter.wake()
        assert woken == ([] if end == 5 else [5] if end < 9 else [5, 8])


def test_who_stops_waiting_is_not_woken():
    tail = PartitionState(0, 0)
    waiters = [Waiter(0, lambda: None), Waiter(0, lambda: None)]
    for waiter in waiters:
        tail.wait(waiter)
    tail.stop_waiting(waiters[0])
    tail.stop_waiting(waiters[0])
    woken = tail.advance(1)
    assert len(woken) == 1
    assert woken[0] is waiters[1]


def test_a_partition_that_goes_away_wakes_all():
    tail = tail_of(chunk(0, 3))
    tail.wait(Waiter(99, lambda: None))
    assert len(tail.clear()) == 1
    assert tail.clear() == []
    assert tail.chunks_from(0, 10) == []


def test_settled_chunks_are_one_in_arrow():
    chunks = [chunk(0, 3), chunk(3, 2), chunk(5, 4)]
    tail = tail_of(*chunks)
    merged = tail.settle(chunks[:2], arrow_of(chunks[:2]), 5)
    assert merged is not None
    assert (merged.base_offset, merged.next_offset, tail.table_offset, tail.first) == (0, 5, 5, 0)
    assert bases(tail.chunks_from(4, 10)) == [0, 5]
    assert offsets(load_batches(tail.chunks_from(0, 10), Journal())) == list(range(9))


def test_chunks_that_are_settled_without_rows_leave_a_hole():
    chunks = [chunk(0, 3, lost=True), chunk(3, 2)]
    tail = tail_of(*chunks)
    assert tail.settle(chunks[:1], None, 3) is None
    assert (tail.table_offset, tail.first) == (3, 3)
    assert bases(tail.chunks_from(0, 10)) == [3]


def test_a_settled_chunk_still_reaches_over_what_was_lost_within_it():
    """Else a reader at an offset behind the lost ones would take it for another hole."""
    chunks = [chunk(0, 3, lost=True), chunk(3, 2), chunk(5, 2, lost=True)]
    tail = tail_of(*chunks)
    merged = tail.settle(chunks, arrow_of(chunks), 7)
    assert merged is not None
    assert (merged.base_offset, merged.next_offset) == (0, 7)
    assert bases(tail.chunks_from(4, 1)) == [0]


class Watched(Chunk):
    """It counts who looks at where it begins."""

    looks = 0

    def __getattribute__(self, name: str) -> object:
        if name == "base_offset":
            Watched.looks += 1
        return super().__getattribute__(name)


def test_what_is_kept_at_hand_is_not_looked_through_when_more_reaches_the_table():
    """Else each commit would take the longer, the more memory there is for the live end."""
    kept = [Watched(each.base_offset, 1, each.size, each.frame, each.place, each.run) for each in map(one, range(1000))]
    fresh = [chunk(1000, 2), chunk(1002, 1)]
    tail = tail_of(*kept, *fresh, tabled=1000)
    Watched.looks = 0
    merged = tail.settle(fresh, arrow_of(fresh), 1003)
    assert merged is not None
    assert (merged.base_offset, merged.next_offset, Watched.looks) == (1000, 1003, 0)
    assert bases(tail.chunks_from(0, 9999)) == [*range(1000), 1000]


def test_only_what_is_in_the_table_is_let_go():
    chunks = [chunk(0, 3), chunk(3, 3), chunk(6, 3)]
    tail = tail_of(*chunks)
    tail.drop_below(9)
    assert tail.first == 0
    tail.settle(chunks[:1], arrow_of(chunks[:1]), 3)
    tail.settle(chunks[1:2], arrow_of(chunks[1:2]), 6)
    tail.drop_below(2)
    assert tail.first == 0
    tail.drop_below(9)
    assert (tail.first, bases(tail.chunks_from(0, 99))) == (6, [6])
    tail.settle(chunks[2:], None, 9)
    assert tail.first == 9


def test_rows_come_from_memory_from_arrow_and_from_the_journal_in_order():
    journal = Journal()
    chunks = [chunk(0, 2), chunk(2, 2, journal), chunk(4, 2), chunk(6, 2, journal), chunk(8, 1, lost=True)]
    tail = tail_of(*chunks)
    tail.settle(chunks[:2], load_batches(chunks[:2], journal)[0], 4)
    journal.reads = 0
    assert offsets(load_batches(tail.chunks_from(0, 99), journal)) == list(range(8))
    assert journal.reads == 1


def test_a_chunk_from_the_journal_has_the_stamp_of_its_frame():
    journal = Journal()
    made = chunk(0, 1, journal)
    payload = encode_block(RowBlock([None], [b"v"], 0, None, 17))
    journal.payloads[made.place] = payload
    frame = Frame(ROWS, "t", "id", 0, 0, 1, 1, len(payload), checksum(payload), 0, ("p", 3))
    read = load_batches([Chunk(0, 1, 0, frame, made.place)], journal)[0].to_pylist()[0]
    assert (read["producer_id"], read["producer_epoch"], read["sequence"]) == ("p", 3, 17)


def test_nothing_is_made_of_nothing():
    assert load_batches([], Journal()) == []
    assert load_batches([chunk(0, 3, lost=True)], Journal()) == []
    assert to_batches([]) == []
