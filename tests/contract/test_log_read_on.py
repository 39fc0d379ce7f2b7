"""A reader who goes on where it ended, in small steps through files: nothing is decoded twice, nothing is stale."""

from collections.abc import Iterator
from typing import Any

import pytest

import delta_log.fetch.file_fetch
from delta_log import Log, Record
from tests.support.logs import FROM_FILES, Place, offsets_of


@pytest.fixture
def filled(place: Place) -> Iterator[Log]:
    """Offsets 0 to 299 in three files."""
    log = place.open(FROM_FILES)
    log.create_topic("t", config={"lakelog.fold.files": 3})
    for _ in range(3):
        log.append("t", [Record(b"v")] * 100)
        log.flush()
    yield log
    place.close()


@pytest.fixture
def decoded(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The rows of every part of a file that was decoded."""
    seen: list[int] = []
    real = delta_log.fetch.file_fetch.read_row_groups

    def counted(*args: Any, **options: Any) -> Iterator[Any]:
        for part in real(*args, **options):
            seen.append(part.num_rows)
            yield part

    monkeypatch.setattr(delta_log.fetch.file_fetch, "read_row_groups", counted)
    return seen


def read_in_steps(log: Log, step: int, *, start: int = 0, end: int = 300) -> list[int]:
    found: list[int] = []
    position = start
    while position < end:
        fetched = log.read("t", 0, position, max_records=step)
        found += offsets_of(list(fetched.records()))
        assert fetched.count
        position = fetched.next_offset
    return found


@pytest.mark.parametrize("step", [1, 7, 99, 100, 101, 300])
def test_each_part_of_a_file_is_decoded_once(filled: Log, decoded: list[int], step: int):
    assert read_in_steps(filled, step) == list(range(300))
    assert decoded == [100] * 3


def test_several_readers_at_the_same_place_share_what_was_decoded(filled: Log, decoded: list[int]):
    for _ in range(3):
        assert read_in_steps(filled, 30, end=90) == list(range(90))
    assert decoded == [100] * 3, "the first step of each is its own, all others are shared"


def test_a_scan_that_ends_amid_what_was_left_ends_there(filled: Log):
    assert filled.read("t", 0, 0, max_records=10).next_offset == 10
    assert [each.next_offset for each in filled.scan("t", 0, 10, 50)] == [50]
    assert [each.count for each in filled.scan("t", 0, 10, 50)] == [40]
    assert read_in_steps(filled, 17, start=10) == list(range(10, 300))


def test_other_columns_are_decoded_for_themselves(filled: Log):
    assert filled.read("t", 0, 0, max_records=10).next_offset == 10
    fetched = filled.read("t", 0, 10, max_records=5, columns=["value"])
    assert fetched.table().column_names == ["offset", "value"]
    assert fetched.table().column("offset").to_pylist() == list(range(10, 15))


def test_what_was_left_of_a_file_that_is_no_more_is_not_given(filled: Log, decoded: list[int]):
    assert filled.read("t", 0, 0, max_records=10).next_offset == 10
    assert filled.fold("t")
    assert read_in_steps(filled, 60, start=10) == list(range(10, 300))
    assert decoded[0] == 100
    assert decoded[1] > 100, "the file that took its place was decoded anew"


def test_a_topic_made_anew_has_nothing_of_the_old_one(filled: Log):
    assert filled.read("t", 0, 0, max_records=10).next_offset == 10
    filled.delete_topic("t")
    filled.create_topic("t")
    filled.append("t", [Record(b"new")] * 20)
    filled.flush()
    fetched = filled.read("t", 0, 10, max_records=5)
    assert {record.value for record in fetched.records()} == {b"new"}
