"""A large read that is promised and decoded later: the same records, whatever becomes of their files meanwhile."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest

from delta_log import Log, PartialFetch, Record
from delta_log.delta.parquet import encode_parquet, read_file
from delta_log.fetch.fetch_result import NO_LIMIT
from delta_log.model.errors import NotAvailable, OffsetOutOfRange, TopicClosed
from delta_log.model.schema import FILE_SCHEMA, ROW_GROUP
from delta_log.model.topic_config import ParquetCodec
from tests.support.large_topics import FILE_ROWS, damage, fill_large, live_files, load_all, open_files
from tests.support.logs import FROM_FILES, Place

MIB = 1024 * 1024
END = 3 * FILE_ROWS


@pytest.fixture
def filled(place: Place) -> Iterator[tuple[Log, pa.Table]]:
    """Three files of two and a half row groups each."""
    log = place.open(FROM_FILES)
    rows = fill_large(log)
    yield log, rows
    assert open_files(log) == 0


def values_in(begun: PartialFetch) -> pa.Table:
    return pa.Table.from_batches(load_all(begun), begun.first.schema).select(["offset", "value"]).combine_chunks()


@pytest.mark.parametrize(
    ("offset", "records", "size"),
    [
        (0, END, 16 * MIB), (0, END, 64 * MIB), (7, END, 16 * MIB), (FILE_ROWS - 1, END, 16 * MIB),
        (END - 1, END, 16 * MIB), (123, 31_234, 16 * MIB), (FILE_ROWS, FILE_ROWS, 16 * MIB), (0, END, 2 * MIB),
        (9_999, 10_001, 4 * MIB), (5, 500, 16 * MIB), (5, END, 1000), (5, END, 0), (0, END, 3 * MIB),
    ],
)  # fmt: skip
def test_what_is_promised_is_what_there_is(filled: tuple[Log, pa.Table], offset: int, records: int, size: int):
    log, rows = filled
    begun = log.begin_read("t", 0, offset, max_records=records, max_bytes=size)
    promised = begun.count
    batches = load_all(begun)
    found = pa.Table.from_batches(batches, begun.first.schema).select(["offset", "value"]).combine_chunks()
    assert found.num_rows == promised == begun.next_offset - offset
    assert found.equals(rows.slice(offset, promised).combine_chunks())
    assert 1 <= promised <= records
    assert promised == 1 or sum(batch.nbytes for batch in batches) <= max(size, 1)
    assert (begun.log_start_offset, begun.end_offset) == (0, END)
    assert sum(batch.nbytes for batch in batches) <= begun.size


def test_a_limit_of_records_is_reached_where_there_are_so_many(filled: tuple[Log, pa.Table]):
    log, _ = filled
    for records in (ROW_GROUP, ROW_GROUP + 1, FILE_ROWS + 7, END - 1):
        begun = log.begin_read("t", 0, 1, max_records=records, max_bytes=64 * MIB)
        assert begun.count == records
        begun.later.close()


def test_who_goes_on_where_an_answer_ended_reads_everything_once(filled: tuple[Log, pa.Table]):
    log, rows = filled
    for size in (1000 * 1000, 2 * MIB, 5 * MIB, 16 * MIB):
        position, found = 0, []
        while position < END:
            begun = log.begin_read("t", 0, position, max_bytes=size)
            found.append(values_in(begun))
            position = begun.next_offset
        assert pa.concat_tables(found).combine_chunks().equals(rows.combine_chunks())


def test_little_is_decoded_before_it_is_asked_for(filled: tuple[Log, pa.Table]):
    log, _ = filled
    begun = log.begin_read("t", 0, 0, max_bytes=16 * MIB)
    assert not begun.first.batches
    assert open_files(log) == 3
    assert begun.held(1) < begun.held(2) < begun.held(9) == begun.size
    begun.later.close()


def test_what_was_decoded_for_somebody_else_comes_first(filled: tuple[Log, pa.Table]):
    log, rows = filled
    assert log.read("t", 0, 0, max_records=100).next_offset == 100
    begun = log.begin_read("t", 0, 100, max_bytes=16 * MIB)
    assert begun.first.count == ROW_GROUP - 100
    assert values_in(begun).equals(rows.slice(100, begun.count).combine_chunks())


def test_small_reads_small_files_and_the_tail_are_read_at_once(place: Place):
    log = place.open(FROM_FILES)
    log.create_topic("small")
    for _ in range(3):
        log.append("small", [Record(b"v")] * 10)
        log.flush("small")
    log.append("small", [Record(b"v")] * 10)
    begun = log.begin_read("small", 0, 5, max_bytes=64 * MIB)
    assert (begun.first.count, begun.count, begun.next_offset) == (35, 35, 40)
    begun = log.begin_read("small", 0, 30, max_bytes=64 * MIB)
    assert (begun.first.count, begun.count, begun.next_offset, begun.end_offset) == (10, 10, 40, 40)
    assert log.begin_read("small", 0, 40).count == 0
    with pytest.raises(OffsetOutOfRange):
        log.begin_read("small", 0, 41)


def test_files_that_go_away_meanwhile_are_read_to_their_end_or_said_to_be_gone(
    filled: tuple[Log, pa.Table], place: Place
):
    log, rows = filled
    begun = log.begin_read("t", 0, 0, max_bytes=16 * MIB)
    step = begun.later.take()
    assert step is not None
    first = step.load()
    for file in live_files(log):
        place.root().store.delete(f"topics/t/{file.path}")
    log.delete_records("t", 0, END)
    if place.objects is not None:
        with pytest.raises(NotAvailable, match="was deleted while it was read"):
            load_all(begun)
        begun.later.close()
        return
    rest = load_all(begun)
    found = pa.Table.from_batches([*first, *rest]).select(["offset", "value"]).combine_chunks()
    assert found.equals(rows.slice(0, begun.count).combine_chunks())


def test_a_file_that_is_missing_ends_what_is_promised_before_it(filled: tuple[Log, pa.Table], place: Place):
    log, _ = filled
    path = live_files(log)[1].path
    place.root().store.delete(f"topics/t/{path}")
    begun = log.begin_read("t", 0, 0, max_bytes=16 * MIB)
    assert begun.next_offset == FILE_ROWS == values_in(begun).num_rows
    with pytest.raises(TopicClosed, match=path):
        log.begin_read("t", 0, FILE_ROWS, max_bytes=16 * MIB)


def test_a_damaged_page_is_told_when_it_is_met_and_the_next_read_ends_before_it(
    filled: tuple[Log, pa.Table], place: Place
):
    log, rows = filled
    path = live_files(log)[1].path
    damage(place, path, share=0.6)
    begun = log.begin_read("t", 0, 0, max_bytes=16 * MIB)
    assert begun.count == END
    with pytest.raises(TopicClosed, match=path):
        load_all(begun)
    begun.later.close()
    assert open_files(log) == 0
    begun = log.begin_read("t", 0, 0, max_bytes=16 * MIB)
    assert begun.next_offset == FILE_ROWS
    assert values_in(begun).equals(rows.slice(0, FILE_ROWS).combine_chunks())
    begun = log.begin_read("t", 0, FILE_ROWS, max_bytes=16 * MIB)
    assert begun.next_offset == FILE_ROWS + ROW_GROUP == FILE_ROWS + begun.first.count
    with pytest.raises(TopicClosed, match=path):
        log.begin_read("t", 0, begun.next_offset, max_bytes=16 * MIB)
    begun = log.begin_read("t", 0, 2 * FILE_ROWS, max_bytes=16 * MIB)
    assert values_in(begun).equals(rows.slice(2 * FILE_ROWS).combine_chunks())


def test_a_footer_that_is_damaged_is_told_before_anything_is_promised(filled: tuple[Log, pa.Table], place: Place):
    log, _ = filled
    path = live_files(log)[0].path
    damage(place, path, share=0.9999)
    with pytest.raises(TopicClosed, match=path):
        log.begin_read("t", 0, 0, max_bytes=16 * MIB)


def test_where_too_many_files_are_open_an_answer_is_decoded_at_once(filled: tuple[Log, pa.Table]):
    log, rows = filled
    held: list[PartialFetch] = []
    while True:
        begun = log.begin_read("t", 0, 0, max_bytes=16 * MIB)
        if begun.first.batches or begun.next_offset < END:
            break
        held.append(begun)
    assert open_files(log) == 128
    for again in (begun, log.begin_read("t", 0, 0, max_bytes=16 * MIB)):
        assert values_in(again).equals(rows.slice(0, again.count).combine_chunks())
    for each in held:
        each.later.close()


def test_where_offsets_are_missing_in_a_file_the_others_are_given_once(place: Place):
    """As key compaction leaves it: whole row groups are promised, and what begins in one is decoded at once."""
    log = place.open(FROM_FILES)
    fill_large(log, files=2)
    store, path = place.root().store, f"topics/t/{live_files(log)[0].path}"
    table = read_file(store, path, FILE_SCHEMA)
    kept = [number for number in range(FILE_ROWS) if number % 7 in (0, 3)]
    fewer = pa.concat_tables([table.take(pa.array(kept)), table.slice(FILE_ROWS - 1)])
    store.put(path, encode_parquet(fewer, ParquetCodec(), ordered_by=("offset", "timestamp")))
    left = [*kept, *range(FILE_ROWS - 1, 2 * FILE_ROWS)]
    for start in (0, 1, 3, FILE_ROWS - 3, FILE_ROWS):
        for records in (NO_LIMIT, 12_345):
            position, found = start, []
            while position < 2 * FILE_ROWS:
                begun = log.begin_read("t", 0, position, max_records=records, max_bytes=16 * MIB)
                assert begun.count <= records
                some = values_in(begun).column("offset").to_pylist()
                assert len(some) == begun.count > 0
                assert position < begun.next_offset <= 2 * FILE_ROWS
                found += some
                position = begun.next_offset
            assert found == [offset for offset in left if offset >= start]
