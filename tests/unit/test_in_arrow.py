"""Arrow streams: what is taken as sent, and that nothing is built from a stream that would become too large."""

from __future__ import annotations

import pyarrow as pa
import pytest

from delta_log.schema import HEADERS, TIMESTAMP
from ingest_api.errors import Refusal
from ingest_api.formats_in import decode_arrow
from ingest_api.formats_in.arrow_messages import MOST_DICTIONARIES
from tests.support.hostile_bodies import arrow_stream

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
        pa.array(["a", "b" * 40, None]).cast(pa.string_view()),
        pa.array([b"a", b"b" * 40, None]).cast(pa.binary_view()),
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


@pytest.mark.parametrize("column", ["dictionary", "view"])
def test_rows_that_share_bytes_count_each_for_itself(column):
    long = b"x" * 5_000
    if column == "dictionary":
        shared = pa.DictionaryArray.from_arrays(pa.array([0, 1, None] * 33), pa.array([long, b"y"]))
    else:
        _, views, shown = pa.array([long]).cast(pa.binary_view()).buffers()
        shared = pa.Array.from_buffers(pa.binary_view(), 33, [None, pa.py_buffer(bytes(views) * 33), shown])
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


def test_extension_types_are_refused_before_their_own_readers_see_them():
    uuids = pa.ExtensionArray.from_storage(pa.uuid(), pa.array([b"x" * 16], pa.binary(16)))
    with pytest.raises(Refusal, match="columns of extension types"):
        decode(arrow_stream(pa.table({"value": uuids})))
