"""What only one of the two forms of a request can get wrong."""

from typing import Any

import pyarrow as pa
import pytest

from delta_log.model.errors import InvalidRecord
from delta_log.model.schema import HEADER, HEADERS
from delta_log.model.topic_config import TopicConfig
from delta_log.model.types import ProducerStamp, Record
from delta_log.records.prepare import prepare_arrow, prepare_records
from delta_log.records.request import Request
from delta_log.records.validation import Rules
from tests.support.hostile_bodies import unread_view

NOW = 1_800_000_000_000
ONE = Rules.of("t", 1, TopicConfig.of({}))
TWO = Rules.of("t", 2, TopicConfig.of({}))
APPEND_TIME = Rules.of("t", 1, TopicConfig.of({"message.timestamp.type": "LogAppendTime"}))
STAMP = ProducerStamp("p", 0, 0)


def objects(*records: Record, rules: Rules = ONE, stamp: ProducerStamp | None = None) -> Request:
    return prepare_records(rules, records, first_null=0, now_ms=NOW, stamp=stamp)


def arrow(table: Any, *, rules: Rules = ONE, stamp: ProducerStamp | None = None) -> Request:
    return prepare_arrow(rules, table, first_null=0, now_ms=NOW, stamp=stamp)


@pytest.mark.parametrize("wrong", ["text", bytearray(b"x"), 7, [1]], ids=repr)
@pytest.mark.parametrize("field", ["key", "value"])
def test_keys_and_values_are_bytes_or_null(field: str, wrong: Any):
    with pytest.raises(InvalidRecord, match=f"its {field} must be bytes or null") as refused:
        objects(Record(b"good"), Record(**{field: wrong}))
    assert refused.value.index == 1


@pytest.mark.parametrize("wrong", ["5", 1.5, True, b"5"], ids=repr)
@pytest.mark.parametrize("rules", [ONE, APPEND_TIME], ids=["CreateTime", "LogAppendTime"])
def test_a_timestamp_is_a_whole_number(rules: Rules, wrong: Any):
    with pytest.raises(InvalidRecord, match="timestamp") as refused:
        objects(Record(b"good"), Record(b"bad", timestamp=wrong), rules=rules)
    assert refused.value.index == 1


def test_a_timestamp_without_bounds_is_refused_even_where_it_would_not_be_used():
    with pytest.raises(InvalidRecord):
        objects(Record(b"bad", timestamp=2**70), rules=APPEND_TIME, stamp=STAMP)


@pytest.mark.parametrize("wrong", ["0", 0.0, True], ids=repr)
def test_a_partition_is_a_whole_number(wrong: Any):
    with pytest.raises(InvalidRecord, match="partition must be a whole number") as refused:
        objects(Record(b"good"), Record(b"bad", partition=wrong), rules=TWO)
    assert refused.value.index == 1


@pytest.mark.parametrize(
    "wrong",
    [
        (("name", "text"),),
        ((b"name", b"value"),),
        ((None, b"value"),),
        (("\ud800", b"value"),),
        (("name",),),
        ("ab",),
        (("a", b"b", b"c"),),
        (7,),
        7,
        "ab",
        {"name": b"value"},
    ],
    ids=repr,
)
def test_a_header_is_a_name_in_utf8_and_bytes_or_null(wrong: Any):
    with pytest.raises(InvalidRecord, match="header") as refused:
        objects(Record(b"good", headers=(("h", None),)), Record(b"bad", headers=wrong))
    assert refused.value.index == 1


def test_arrow_needs_a_value_and_knows_five_columns():
    values = pa.array([b"v"])
    with pytest.raises(InvalidRecord, match="columns must be"):
        arrow(pa.table({"key": values}))
    with pytest.raises(InvalidRecord, match="colour"):
        arrow(pa.table({"value": values, "colour": values}))
    with pytest.raises(InvalidRecord, match="columns must be"):
        arrow(pa.Table.from_arrays([values, values], names=["value", "value"]))


def test_text_is_taken_as_its_bytes():
    rows: Any = arrow(pa.table({"key": pa.array(["k"]), "value": pa.array(["é"], pa.large_string())})).parts[0].rows
    assert rows.values == ["é".encode()]
    assert rows.keys == [b"k"]


@pytest.mark.parametrize(
    "columns",
    [
        {"value": pa.array([1, 2])},
        {"value": pa.array([b"v"]), "timestamp": pa.array([2**62])},
        {"value": pa.array([b"v"]), "timestamp": pa.array(["yesterday"])},
        {"value": pa.array([b"v"]), "timestamp": pa.array([1.0])},
        {"value": pa.array([b"v"]), "timestamp": pa.array([True])},
        {"value": pa.array([b"v"]), "partition": pa.array([2**40])},
        {"value": pa.array([b"v"]), "partition": pa.array([0.0])},
        {"value": pa.array([b"v"]), "partition": pa.array([False])},
        {"value": pa.array([b"v"]), "partition": pa.array(["0"])},
        {"value": pa.array([b"v"]), "headers": pa.array([b"h"])},
        {"value": pa.array([b"v"]), "headers": pa.array([[{"name": "n", "value": b"v"}]])},
    ],
    ids=lambda columns: str({name: str(column.type) for name, column in columns.items()}),
)
def test_a_column_of_a_wrong_type_is_refused(columns: dict[str, pa.Array]):
    with pytest.raises(InvalidRecord):
        arrow(pa.table(columns))


def with_headers(lists: pa.Array) -> pa.Table:
    return pa.table({"value": pa.array([b"v"] * len(lists)), "headers": lists})


def test_a_header_without_a_name_is_refused_at_its_record():
    lists = pa.array([[{"key": "k", "value": b"v"}], None, [{"key": "a", "value": b""}, {"key": None}]], HEADERS)
    with pytest.raises(InvalidRecord, match="a header needs a name") as refused:
        arrow(with_headers(lists))
    assert refused.value.index == 2


def test_a_header_that_is_null_itself_is_refused():
    """Nobody could read it: the name below the null is not the header's."""
    flat = pa.StructArray.from_arrays([pa.array(["k"]), pa.array([b"v"])], fields=list(HEADER), mask=pa.array([True]))
    with pytest.raises(InvalidRecord, match="header"):
        arrow(with_headers(pa.ListArray.from_arrays(pa.array([0, 1], pa.int32()), flat, type=HEADERS)))


def test_a_header_name_that_is_not_utf8_is_refused():
    """It would be stored, and then fail whoever reads it."""
    names = pa.Array.from_buffers(pa.string(), 1, pa.array([b"\xff\xfe"]).buffers())
    flat = pa.StructArray.from_arrays([names, pa.array([b"v"])], fields=list(HEADER))
    with pytest.raises(InvalidRecord):
        arrow(with_headers(pa.ListArray.from_arrays(pa.array([0, 1], pa.int32()), flat, type=HEADERS)))


def test_arrow_that_points_outside_itself_is_refused():
    offsets = pa.array([0, 1_000_000_000, 1], pa.int32()).buffers()[1]
    broken = pa.Array.from_buffers(pa.binary(), 2, [None, offsets, pa.py_buffer(b"x")])
    with pytest.raises(InvalidRecord):
        arrow(pa.table({"value": broken}))


@pytest.mark.parametrize("length", [-1, 2**31 - 1])
@pytest.mark.parametrize("column", ["key", "value"])
def test_what_a_view_says_below_a_null_is_never_read(column, length):
    """Arrow's own validation passes it by, and its cast ends the process."""
    unread = unread_view(length)
    for views in (unread, pa.concat_arrays([pa.array([b"x"], unread.type), unread]).slice(1)):
        rows: Any = arrow(pa.table({"value": [b"v", b"w"]} | {column: views})).parts[0].rows
        assert getattr(rows, f"{column}s") == [b"a", None]


def test_views_are_what_they_show():
    values = [b"x" * 40, None, b"y", None, b"z" * 30, b""] * 20
    for kind in (pa.binary_view(), pa.string_view()):
        rows: Any = arrow(pa.table({"value": pa.array(values).cast(pa.string()).cast(kind).slice(3)})).parts[0].rows
        assert rows.values == values[3:]


@pytest.mark.parametrize(
    "column",
    [
        pa.array([b"a"], pa.binary_view()).dictionary_encode(),
        pa.RunEndEncodedArray.from_arrays(pa.array([1], pa.int32()), pa.array([b"a"])),
        pa.UnionArray.from_sparse(pa.array([0], pa.int8()), [pa.array([b"a"])]),
        pa.ExtensionArray.from_storage(pa.uuid(), pa.nulls(1, pa.binary(16))),
    ],
    ids=lambda column: str(column.type)[:20],
)
def test_a_type_that_arrow_does_not_look_at_as_a_whole_is_refused_by_its_name(column):
    with pytest.raises(InvalidRecord, match="column value is of a type that is not taken: "):
        arrow(pa.table({"value": column}))


def test_headers_that_are_views_are_refused():
    pair = [pa.field("key", pa.string()), pa.field("value", pa.binary())]
    for kind in (pa.list_view(pa.struct(pair)), pa.list_(pa.struct([pair[0], pa.field("value", pa.binary_view())]))):
        with pytest.raises(InvalidRecord, match="column headers is of a type that is not taken: "):
            arrow(pa.table({"value": [b"v"], "headers": pa.nulls(1, kind)}))


def test_microseconds_are_kept_and_bounded_by_the_millisecond():
    late = pa.array([253_402_300_799_999_999], pa.timestamp("us", "UTC"))
    rules = Rules.of("t", 1, TopicConfig.of({"message.timestamp.after.max.ms": 2**62}))
    rows: Any = arrow(pa.table({"value": pa.array([b"v"]), "timestamp": late}), rules=rules).parts[0].rows
    assert rows.batch.column("timestamp").cast(pa.int64()).to_pylist() == [253_402_300_799_999_999]


def test_a_naive_timestamp_is_utc():
    rows: Any = arrow(pa.table({"value": pa.array([b"v"]), "timestamp": pa.array([7], pa.timestamp("ms"))}))
    assert rows.parts[0].rows.batch.column("timestamp").cast(pa.int64()).to_pylist() == [7000]


def test_arrow_may_come_in_chunks_and_slices_and_be_the_same_request():
    """A repeat need not be laid out in memory as the first was."""
    keys, values = [b"a", None, b"c", b"d", None], [b"1", b"", None, b"4", b"5"]
    lists = [[{"key": "h", "value": b"v"}], None, [], [{"key": "i", "value": None}], None]
    stamps = [5, None, 7, 8, None]
    whole = pa.table(
        {
            "key": pa.array(keys, pa.binary()),
            "value": pa.array(values, pa.binary()),
            "timestamp": pa.array(stamps, pa.int64()),
            "headers": pa.array(lists, HEADERS),
        }
    )
    fresh = whole.take([1, 2, 3])
    padded = pa.concat_tables([whole, whole]).combine_chunks()
    digests = {
        arrow(table, stamp=STAMP).digest
        for table in (
            fresh,
            whole.slice(1, 3),
            padded.slice(6, 3),
            pa.concat_tables([whole.slice(1, 1), whole.slice(2, 2)]),
            pa.ipc.open_stream(stream(whole.slice(1, 3))).read_all(),
        )
    }
    assert len(digests) == 1


def stream(table: pa.Table) -> pa.Buffer:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue()


def test_what_lies_below_a_null_does_not_count():
    """Two values are equal where both are null, whatever bytes their buffers hold there."""
    hidden = pa.Array.from_buffers(pa.binary(), 2, [pa.py_buffer(b"\x02"), *pa.array([b"xx", b"y"]).buffers()[1:]])
    plain = pa.array([None, b"y"])
    assert hidden.equals(plain)
    assert (
        arrow(pa.table({"value": hidden}), stamp=STAMP).digest == arrow(pa.table({"value": plain}), stamp=STAMP).digest
    )
