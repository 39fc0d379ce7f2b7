"""Arrow streams: what is taken as sent, and that nothing is built from a stream that would become too large."""

from __future__ import annotations

import io
import struct
from collections.abc import Sequence

import polars as pl
import pyarrow as pa
import pytest

from delta_log.model.schema import HEADERS, TIMESTAMP
from delta_log.records.arrow_columns import read_columns
from ingest_api.formats.decode import decode_arrow
from ingest_api.web.errors import Refusal
from lakelog.foundation.arrow_stream import MOST_DICTIONARIES
from tests.support.hostile_bodies import arrow_stream, unread_view

WHOLE = pa.table(
    {
        "key": pa.array([b"a", None, b""]),
        "value": pa.array([b"v" * 1_000, b"", None]),
        "partition": pa.array([0, None, 2], pa.int32()),
        "timestamp": pa.array([5, None, 7], TIMESTAMP),
        "headers": pa.array([[("h", b"v"), ("i", None)], None, []], HEADERS),
    }
)


def decode(body: bytes, partition=None, most_records=100, most_bytes=1_000_000) -> pa.Table:
    return decode_arrow(body, most_records=most_records, most_bytes=most_bytes, partition=partition)


@pytest.mark.parametrize("compression", [None, "lz4", "zstd"])
def test_a_stream_is_its_table(compression):
    assert decode(arrow_stream(WHOLE, compression=compression)) == WHOLE


@pytest.mark.parametrize(
    "column",
    [
        pa.array(["a", "b", None]),
        pa.array(["a", "b", None], pa.large_string()),
        pa.array([b"a", b"b", None], pa.large_binary()),
        pa.array([b"a", b"b", None], pa.binary(1)),
        pa.array(["a", "b", None]).dictionary_encode(),
        pa.DictionaryArray.from_arrays(pa.array([0, None, 1], pa.uint64()), pa.array([b"a", b"b"], pa.binary(1))),
        pa.nulls(3),
    ],
    ids=lambda column: str(column.type)[:20],
)
def test_text_and_bytes_come_in_many_types(column):
    table = pa.table({"key": column, "value": column})
    assert decode(arrow_stream(table)) == table


def test_batches_of_one_stream_are_one_request():
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, WHOLE.schema) as writer:
        for _ in range(3):
            writer.write_table(WHOLE, max_chunksize=1)
    assert decode(sink.getvalue().to_pybytes()).num_rows == 9


def test_what_a_compressed_stream_becomes_is_bounded_before_it_does():
    table = pa.table({"value": pa.array([bytes(50_000)] * 10)})
    body = arrow_stream(table, compression="zstd")
    assert len(body) < 10_000
    assert decode(body) == table
    with pytest.raises(Refusal, match="400000 bytes once decompressed"):
        decode(body, most_bytes=400_000)


def test_rows_that_share_bytes_count_each_for_itself():
    shared = pa.DictionaryArray.from_arrays(pa.array([0, 1, None] * 33), pa.array([b"x" * 5_000, b"y"]))
    body = arrow_stream(pa.table({"value": shared}))
    assert decode(body).num_rows == len(shared)
    with pytest.raises(Refusal, match="once every row has its own"):
        decode(body, most_bytes=33 * 5_000 - 1)


def test_dictionaries_that_are_replaced_over_and_over_are_refused():
    sink = pa.BufferOutputStream()
    schema = pa.schema([("value", pa.dictionary(pa.int8(), pa.string()))])
    with pa.ipc.new_stream(sink, schema) as writer:
        for at in range(MOST_DICTIONARIES + 1):
            writer.write_batch(
                pa.record_batch([pa.array([str(at)]).dictionary_encode().cast(schema.types[0])], schema=schema)
            )
    with pytest.raises(Refusal, match="dictionaries"):
        decode(sink.getvalue().to_pybytes(), most_records=10_000)


def test_as_many_rows_as_allowed_are_taken_and_one_more_is_not():
    body = arrow_stream(pa.table({"value": pa.array([b"a"] * 7)}))
    assert decode(body, most_records=7).num_rows == 7
    with pytest.raises(Refusal, match="1 to 6 records, not 7"):
        decode(body, most_records=6)


def test_rows_of_a_partition_are_for_it_and_no_other():
    table = WHOLE.drop_columns(["partition"])
    assert decode(arrow_stream(table), partition=4).column("partition").to_pylist() == [4, 4, 4]
    same = table.append_column("partition", pa.array([4, None, 4]))
    assert decode(arrow_stream(same), partition=4).column("partition").to_pylist() == [4, 4, 4]
    with pytest.raises(Refusal, match="its partition: 2, but the request is for partition 0") as caught:
        decode(arrow_stream(WHOLE), partition=0)
    assert [error["index"] for error in caught.value.facts["errors"]] == [2]


@pytest.mark.parametrize("cut", [1, 4, 7, 8, 9, 100])
def test_a_stream_that_is_cut_off_is_refused(cut):
    with pytest.raises(Refusal):
        decode(arrow_stream(WHOLE)[:-cut])


def headers_of(kind: pa.DataType) -> pa.Array:
    return pa.nulls(1, kind)


PAIR = pa.struct([("key", pa.string()), ("value", pa.binary())])
REFUSED = {
    "list_view": ("headers", headers_of(pa.list_view(PAIR))),
    "large_list_view": ("headers", headers_of(pa.large_list_view(PAIR))),
    "fixed_size_list": ("headers", headers_of(pa.list_(PAIR, 1))),
    "list of string_view": ("headers", headers_of(pa.list_(pa.string_view()))),
    "list of list": ("headers", headers_of(pa.list_(pa.list_(PAIR)))),
    "dictionary of string_view": ("key", pa.array(["a"], pa.string_view()).dictionary_encode()),
    "dictionary of integer": ("partition", pa.array([1]).dictionary_encode()),
    "run_end_encoded": ("value", pa.RunEndEncodedArray.from_arrays(pa.array([1], pa.int32()), pa.array([b"a"]))),
    "union": ("value", pa.UnionArray.from_sparse(pa.array([0], pa.int8()), [pa.array([b"a"])])),
    "extension<arrow.uuid>": ("value", pa.ExtensionArray.from_storage(pa.uuid(), pa.nulls(1, pa.binary(16)))),
    "struct": ("value", pa.nulls(1, PAIR)),
    "decimal": ("value", pa.nulls(1, pa.decimal128(5))),
    "floating point": ("timestamp", pa.nulls(1, pa.float64())),
    "bool": ("value", pa.nulls(1, pa.bool_())),
    "duration": ("timestamp", pa.nulls(1, pa.duration("s"))),
    "interval": ("timestamp", pa.nulls(1, pa.month_day_nano_interval())),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_a_type_that_is_not_on_the_list_is_refused_by_its_name_and_its_columns(kind):
    name, column = REFUSED[kind]
    body = arrow_stream(pa.table({"value": pa.array([b"a"])} | {name: column}))
    with pytest.raises(Refusal, match=f"^the Arrow stream has a column '{name}' of type {kind}, which is not taken"):
        decode(body)


LONG = "longer than the twelve bytes that a view holds itself"


@pytest.mark.parametrize("kind", [pa.binary_view(), pa.string_view()], ids=str)
@pytest.mark.parametrize("compression", [None, "lz4", "zstd"])
def test_views_are_what_they_show(kind, compression):
    whole = pa.array([None, "", "short", LONG, None, LONG * 2, "exactly  12b"] * 4).cast(kind)
    for column in (whole, whole.slice(3, 11), pa.nulls(3, kind), pa.concat_arrays([whole, whole])):
        table = decode(arrow_stream(pa.table({"key": column, "value": column}), compression=compression))
        expected = [each.as_py() for each in column]
        assert [table.column(name).to_pylist() for name in ("key", "value")] == [expected, expected]


def test_what_polars_writes_unless_told_otherwise_is_taken():
    frame = pl.DataFrame({"key": ["a", None, LONG], "value": [b"b", LONG.encode(), None]})
    written = io.BytesIO()
    frame.write_ipc_stream(written)
    assert pa.types.is_string_view(pa.ipc.open_stream(written.getvalue()).schema.field("key").type)
    assert decode(written.getvalue()).to_pydict() == frame.to_dict(as_series=False)


def views_of(*slots: tuple[int, int, int], shown: Sequence[bytes] = (LONG.encode(),), valid: int = 0xFF) -> bytes:
    """A stream of views of a length, a buffer, and a place in it."""
    views = b"".join(struct.pack("<i4sii", length, b"long", buffer, start) for length, buffer, start in slots)
    buffers = [pa.py_buffer(bytes([valid]) * len(slots)), pa.py_buffer(views), *map(pa.py_buffer, shown)]
    return arrow_stream(pa.table({"value": pa.Array.from_buffers(pa.binary_view(), len(slots), buffers)}))


@pytest.mark.parametrize("below_a_null", [False, True])
@pytest.mark.parametrize(
    "view",
    [
        (-1, 0, 0),
        (-(2**31), 0, 0),
        (2**31 - 1, 0, 0),
        (len(LONG) + 1, 0, 0),
        (13, 0, len(LONG) - 12),
        (13, 0, -1),
        (13, 0, 2**31 - 1),
        (13, 1, 0),
        (13, -1, 0),
        (13, 2**31 - 1, 0),
    ],
    ids=str,
)
def test_a_view_of_what_is_not_there_is_refused_also_below_a_null(view, below_a_null):
    valid = 0b01 if below_a_null else 0b11
    with pytest.raises(Refusal, match=r"^the Arrow stream has a view of what is not there"):
        decode(views_of((13, 0, 0), view, valid=valid))


def test_views_of_buffers_that_are_not_there_are_refused():
    with pytest.raises(Refusal, match="has a view of what is not there"):
        decode(views_of((13, 0, 0), shown=()))


def test_views_that_share_their_bytes_count_by_what_they_show():
    body = views_of(*[(len(LONG), 0, 0)] * 100)
    assert decode(body, most_bytes=100 * len(LONG)).column("value").to_pylist() == [LONG.encode()] * 100
    with pytest.raises(Refusal, match=f"has more than {100 * len(LONG) - 1} bytes once decompressed"):
        decode(body, most_bytes=100 * len(LONG) - 1)


def test_a_dictionary_of_views_is_refused_before_it_is_read():
    views = pa.DictionaryArray.from_arrays(pa.array([0, 1]), unread_view(-1))
    with pytest.raises(Refusal, match="a column 'value' of type dictionary of binary_view, which is not taken"):
        decode(arrow_stream(pa.table({"value": views})))


def test_headers_that_have_more_than_a_key_and_a_value_are_refused():
    headers = pa.array([[{"key": "a", "value": b"", "more": b""}]])
    with pytest.raises(Refusal, match="a column 'headers' of type list of struct, which must have key and value alone"):
        decode(arrow_stream(pa.table({"value": [b""], "headers": headers})))


@pytest.mark.parametrize(
    "kind",
    [
        pa.list_(pa.null()),
        pa.large_list(PAIR),
        pa.map_(pa.string(), pa.binary()),
        pa.list_(pa.struct([("value", pa.large_binary()), ("key", pa.large_string())])),
        pa.list_(pa.struct([("key", pa.binary(1)), ("value", pa.null())])),
        pa.large_list(pa.struct([("key", pa.string_view()), ("value", pa.binary_view())])),
    ],
    ids=str,
)
def test_headers_come_in_many_types(kind):
    some = kind.num_fields and kind.field(0).type != pa.null()
    pairs = [{"key": "h", "value": None}] if some else []
    given = [[("h", None)]] if pa.types.is_map(kind) else [pairs]
    decoded = decode(arrow_stream(pa.table({"value": [b""], "headers": pa.array(given, kind)})))
    assert read_columns(decoded)["headers"].to_pylist() == [pairs]


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_times_come_in_any_unit_and_zone(unit):
    for zone, kind in ((None, None), ("Asia/Tokyo", "UTC"), ("no such zone", "UTC")):
        times = pa.array([10**9], pa.int64()).cast(pa.timestamp(unit, zone))
        decoded = decode(arrow_stream(pa.table({"value": [b""], "timestamp": times})))
        assert decoded.column("timestamp").type == pa.timestamp(unit, kind)
        assert decoded.column("timestamp").cast(pa.int64()).to_pylist() == [10**9]
