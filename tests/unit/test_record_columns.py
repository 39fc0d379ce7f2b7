"""Columns are a sequence of records like any other."""

from delta_log import Record
from delta_log.records.record_columns import RecordColumns

RECORDS = [
    Record(b"a", b"k", 5, (("h", b"x"),), 1),
    Record(None),
    Record(b"", b"", None, None, 0),
]


def test_what_goes_in_comes_out():
    columns = RecordColumns.of(RECORDS)
    assert list(columns) == RECORDS
    assert [columns[index] for index in range(3)] == RECORDS
    assert columns[-1] == RECORDS[-1]
    assert list(columns[1:]) == RECORDS[1:]
    assert len(columns) == 3


def test_a_column_that_is_not_there_is_null_in_every_record():
    columns = RecordColumns([b"a", b"b"])
    assert list(columns) == [Record(b"a"), Record(b"b")]
    assert columns[1] == Record(b"b")
    assert list(columns[:1]) == [Record(b"a")]


def test_columns_are_equal_to_the_records_that_they_hold():
    columns = RecordColumns.of(RECORDS)
    assert columns == RECORDS
    assert columns == RecordColumns.of(RECORDS)
    assert columns != RECORDS[:2]
    assert columns != "abc"
    assert RecordColumns.of(columns) is columns


def test_columns_show_their_records():
    assert repr(RecordColumns([b"a"])) == f"RecordColumns([{Record(b'a')!r}])"
