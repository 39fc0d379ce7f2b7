"""An Arrow stream from outside: each lie in it is told from the truth before Arrow sees it."""

from __future__ import annotations

import io
import struct
from collections.abc import Callable

import pyarrow as pa
import pytest

from lakelog.foundation import arrow_arrays
from lakelog.foundation.arrow_stream import MOST_METADATA_BYTES, ArrowStream, Coming, Limits, Whole
from lakelog.foundation.arrow_types import ArrowRefused
from lakelog.foundation.flatbuffer import Table
from tests.support.arrow_messages import BATCH, DICTIONARY, messages_of, patched
from tests.support.hostile_bodies import arrow_stream

LIMITS = Limits(bytes=100_000, batches=10, nulls=100)
PAIRS = pa.list_(pa.field("element", pa.struct([("key", pa.string()), ("value", pa.binary())])))
TABLE = pa.table(
    {
        "key": pa.array([b"a", None, b"ccc", b""]),
        "time": pa.array([1, 2, None, 4], pa.int64()),
        "headers": pa.array([[{"key": "h", "value": b"v"}], None, [], [{"key": "i", "value": None}] * 2], PAIRS),
    }
)
STREAM = arrow_stream(TABLE)
(BATCHED,) = (each for each in messages_of(STREAM) if each.kind == BATCH)
#: The arrays of the table, and the buffers of them, in their order.
KEY, TIME, HEADERS, PAIR, NAME, VALUE = range(6)
KEY_VALID, KEY_OFFSETS, KEY_DATA, TIME_VALID, TIME_DATA, HEADERS_VALID, HEADERS_OFFSETS = range(7)
CODED = pa.table({"value": pa.array(["a", "b", None, "a"]).dictionary_encode()})


def read(stream: bytes) -> pa.Table:
    found = ArrowStream(Whole(stream), LIMITS)
    return pa.Table.from_batches(list(found), found.schema)


def read_coming(stream: bytes) -> pa.Table:
    found = ArrowStream(Coming(io.BytesIO(stream)), LIMITS)
    return pa.Table.from_batches(list(found), found.schema)


READERS = pytest.mark.parametrize("reader", [read, read_coming])


def node(array: int, *, nulls: bool = False) -> int:
    return BATCHED.nodes[2 * array + nulls]


def buffer(number: int, *, size: bool = False) -> int:
    return BATCHED.buffers[2 * number + size]


def inside(number: int, at: int = 0) -> int:
    """Where a byte of a buffer lies."""
    return BATCHED.body + struct.unpack_from("<q", STREAM, buffer(number))[0] + at


@READERS
@pytest.mark.parametrize("compression", [None, "lz4", "zstd"])
def test_what_is_sound_is_read_as_it_was_written(reader: Callable[[bytes], pa.Table], compression: str | None):
    for table in (TABLE, CODED, TABLE.slice(1, 2), TABLE.slice(0, 0)):
        found = reader(arrow_stream(table, compression=compression))
        found.validate(full=True)
        assert found == table


def test_older_writers_are_understood():
    for options in ({"use_legacy_format": True}, {"metadata_version": pa.ipc.MetadataVersion.V4}):
        assert read(arrow_stream(TABLE, **options)) == TABLE


LIES = {
    "an array of negative length": (node(KEY), -1, "an array of negative length"),
    "a column that is longer than its batch": (node(TIME), 5, "where 40 are needed|not as long as it says"),
    "a column that is shorter than its batch": (node(KEY), 3, "not as long as it says"),
    "2**62 rows": (node(TIME), 2**62, "are needed"),
    "2**60 headers": (node(PAIR), 2**60, "are needed|not as many"),
    "fewer headers than its lists have": (node(PAIR), 2, "not as many as it says"),
    "fewer names than headers": (node(NAME), 2, "not as many as it says"),
    "a buffer before its message": (buffer(KEY_DATA), -8, "not in its message"),
    "a buffer behind its message": (buffer(KEY_DATA), 2**20, "not in its message"),
    "a buffer at the end of the numbers": (buffer(KEY_DATA), 2**63 - 8, "not in its message"),
    "a buffer of negative size": (buffer(KEY_DATA, size=True), -1, "not in its message"),
    "a buffer that is too long": (buffer(KEY_DATA, size=True), 2**40, "not in its message"),
    "a buffer that begins at an odd place": (buffer(TIME_DATA), 1, "not in its message"),
    "offsets that are not there": (buffer(KEY_OFFSETS, size=True), 0, "0 bytes where 20 are needed"),
    "an offset too few": (buffer(KEY_OFFSETS, size=True), 16, "16 bytes where 20 are needed"),
    "nulls without their bits": (buffer(KEY_VALID, size=True), 0, "0 bytes where 1 are needed"),
    "values without their bytes": (buffer(TIME_DATA, size=True), 31, "31 bytes where 32 are needed"),
    "a row that ends behind its data": (buffer(KEY_DATA, size=True), 3, "ends behind its buffer"),
}


@READERS
@pytest.mark.parametrize("lie", LIES)
def test_a_number_that_lies_is_refused(reader: Callable[[bytes], pa.Table], lie: str):
    at, number, why = LIES[lie]
    with pytest.raises(ArrowRefused, match=why):
        reader(patched(STREAM, at, number))


@pytest.mark.parametrize(
    ("where", "offset", "why"),
    [
        (inside(KEY_OFFSETS), -1, "end before they begin"),
        (inside(KEY_OFFSETS, 8), 0, "end before they begin"),
        (inside(KEY_OFFSETS, 8), 2**31 - 1, "end before they begin"),
        (inside(KEY_OFFSETS, 16), 2**31 - 1, "ends behind its buffer"),
        (inside(HEADERS_OFFSETS, 16), 4, "ends behind its values"),
        (inside(HEADERS_OFFSETS, 4), 4, "end before they begin"),
    ],
)
def test_offsets_rise_and_end_in_what_they_are_of(where: int, offset: int, why: str):
    with pytest.raises(ArrowRefused, match=why):
        read(patched(STREAM, where, offset, "i"))


@pytest.mark.parametrize("with_numpy", [True, False])
def test_offsets_of_many_rows_are_looked_at_too(monkeypatch: pytest.MonkeyPatch, with_numpy: bool):
    if not with_numpy:
        monkeypatch.setattr(arrow_arrays, "np", None)
    for kind, width, code in ((pa.binary(), 4, "i"), (pa.large_binary(), 8, "q")):
        table = pa.table({"value": pa.array([b"xy"] * 1_000, kind)})
        stream = arrow_stream(table)
        (message,) = (each for each in messages_of(stream) if each.kind == BATCH)
        assert read(stream) == table
        with pytest.raises(ArrowRefused, match="end before they begin"):
            read(patched(stream, message.body + 500 * width, 997, code))


def test_bits_of_nulls_that_are_said_not_to_be_are_not_read():
    assert read(patched(patched(STREAM, node(TIME, nulls=True), 0), buffer(TIME_VALID, size=True), 0)).column(
        "time"
    ).to_pylist() == [1, 2, 0, 4]


def test_what_is_said_of_the_number_of_nulls_is_not_believed():
    for number in (-1, 3, 2**60):
        assert read(patched(STREAM, node(TIME, nulls=True), number)).column("time").null_count == 1


def test_arrays_and_buffers_are_as_many_as_the_schema_needs():
    less, more = TABLE.select(["key"]), TABLE.select(["key", "time"])
    (schema, _), (_, batch) = messages_of(arrow_stream(more)), messages_of(arrow_stream(less))
    mixed = arrow_stream(more)[: schema.end] + arrow_stream(less)[batch.start :]
    with pytest.raises(ArrowRefused, match="fewer arrays than its schema has columns"):
        read(mixed)
    (schema, _), (_, batch) = messages_of(arrow_stream(less)), messages_of(arrow_stream(more))
    with pytest.raises(ArrowRefused, match="more arrays or buffers than its schema has"):
        read(arrow_stream(less)[: schema.end] + arrow_stream(more)[batch.start :])


@pytest.mark.parametrize("codec", ["lz4", "zstd"])
@pytest.mark.parametrize(
    ("size", "why"),
    [
        (-2, "of negative length"),
        (-(2**63), "of negative length"),
        (2**40, "more than 100000 bytes once decompressed"),
        (2**63 - 1, "more than 100000 bytes once decompressed"),
        (1_999, "another length|is not sound"),
        (2_001, "another length|is not sound"),
        (90_000, "another length|is not sound"),
    ],
)
def test_what_a_compressed_buffer_says_of_its_length_is_held_against_it(codec: str, size: int, why: str):
    stream = arrow_stream(pa.table({"value": pa.array([b"ab" * 500] * 2, pa.binary(1_000))}), compression=codec)
    (message,) = (each for each in messages_of(stream) if each.kind == BATCH)
    with pytest.raises(ArrowRefused, match=why):
        read(patched(stream, message.body, size))


def test_compressed_buffers_count_together():
    stream = arrow_stream(pa.table({name: pa.array([bytes(60_000)]) for name in "ab"}), compression="zstd")
    assert len(stream) < 10_000
    with pytest.raises(ArrowRefused, match="more than 100000 bytes once decompressed"):
        read(stream)


def test_an_index_is_in_its_dictionary():
    stream = arrow_stream(CODED)
    batch = messages_of(stream)[-1]
    indexes = batch.body + struct.unpack_from("<q", stream, batch.buffers[2])[0]
    for wrong in (2, -1, 2**31 - 1):
        with pytest.raises(ArrowRefused, match="a row that is not in its dictionary"):
            read(patched(stream, indexes, wrong, "i"))


def test_an_index_below_a_null_is_never_looked_up():
    stream = arrow_stream(CODED)
    batch = messages_of(stream)[-1]
    below = batch.body + struct.unpack_from("<q", stream, batch.buffers[2])[0] + 8
    for anything in (2, -1, 2**31 - 1):
        (chunk,) = read(patched(stream, below, anything, "i")).column("value").chunks
        assert chunk.to_pylist() == CODED.column("value").to_pylist()
        assert struct.unpack_from("<i", chunk.indices.buffers()[1], 8) == (0,)


def test_a_dictionary_grows_by_what_is_sent_later():
    kind = pa.dictionary(pa.int8(), pa.string())
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(emit_dictionary_deltas=True)
    letters = ["a", "b", "c"]
    grown = [pa.DictionaryArray.from_arrays(pa.array([at], pa.int8()), pa.array(letters[: at + 1])) for at in range(3)]
    with pa.ipc.new_stream(sink, pa.schema([("value", kind)]), options=options) as writer:
        for column in grown:
            writer.write_batch(pa.record_batch([column], names=["value"]))
    stream = sink.getvalue().to_pybytes()
    assert read(stream).column("value").to_pylist() == letters
    sent = [each for each in messages_of(stream) if each.kind == DICTIONARY]
    headers = [Table.root(stream[each.metadata : each.body]).table(2) for each in sent]
    assert [header.number(2, "B") for header in headers] == [0, 1, 1]


def test_rows_without_bytes_are_no_more_than_allowed():
    assert read(arrow_stream(pa.table({"value": pa.nulls(100)}))).num_rows == 100
    for kind in (pa.null(), pa.list_(pa.null())):
        values = pa.nulls(101) if kind == pa.null() else pa.array([[None] * 101])
        with pytest.raises(ArrowRefused, match="101 rows of nothing, and 100 at most"):
            read(arrow_stream(pa.table({"value": values})))


def test_numbers_at_odd_addresses_are_moved_before_arrow_counts_on_them():
    moved = pa.py_buffer(b"x" + STREAM).slice(1)
    found = ArrowStream(Whole(moved), LIMITS)
    (batch,) = list(found)
    assert pa.Table.from_batches([batch]) == TABLE
    assert batch.column("time").buffers()[1].address % 8 == 0


@READERS
def test_a_message_that_claims_more_than_there_is_reserves_nothing(reader: Callable[[bytes], pa.Table]):
    claim = STREAM.index(struct.pack("<q", BATCHED.end - BATCHED.body), BATCHED.metadata)
    before = pa.total_allocated_bytes()
    for size in (2**30, 2**40, 2**62):
        with pytest.raises(ArrowRefused, match=r"is cut off|at most are taken"):
            reader(patched(STREAM, claim, size))
    with pytest.raises(ArrowRefused, match="negative length"):
        reader(patched(STREAM, claim, -1))
    assert pa.total_allocated_bytes() - before < 10_000


@READERS
def test_a_stream_is_refused_wherever_it_is_cut(reader: Callable[[bytes], pa.Table]):
    for end in range(len(STREAM) - 1):
        with pytest.raises(ArrowRefused):
            reader(STREAM[:end])


@pytest.mark.parametrize(
    ("stream", "why"),
    [
        (STREAM[BATCHED.start :], "does not begin with a schema"),
        (STREAM[: BATCHED.start] + STREAM, "does not belong there: number 1"),
        (STREAM + b"more", "4 more bytes behind its end"),
        (struct.pack("<Ii", 0xFFFFFFFF, MOST_METADATA_BYTES + 1) + STREAM[8:], "bytes of metadata"),
        (struct.pack("<Ii", 0xFFFFFFFF, -1) + STREAM[8:], "bytes of metadata"),
        (b"\xff\xff\xff\xff\x08\0\0\0\0\0\0\x80\xff\xff\xff\xff", "is not sound"),
        (b"\xff\xff\xff\xff\x08\0\0\0\x04\0\0\0\xff\xff\xff\x7f", "is not sound"),
    ],
)
def test_messages_are_in_their_place(stream: bytes, why: str):
    with pytest.raises(ArrowRefused, match=why):
        read(stream)


def test_batches_are_no_more_than_allowed():
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, TABLE.schema) as writer:
        for _ in range(11):
            writer.write_table(TABLE)
    with pytest.raises(ArrowRefused, match="more than 10 batches"):
        read(sink.getvalue().to_pybytes())


def test_columns_are_no_more_than_any_reader_wants():
    with pytest.raises(ArrowRefused, match="has 17 columns"):
        read(arrow_stream(pa.table({str(number): [b""] for number in range(17)})))


def test_a_big_endian_stream_is_refused():
    """Writers leave the order of bytes out where it is little: here its place is that of another number."""
    (schema, _) = messages_of(STREAM)
    table = Table.root(STREAM[schema.metadata : schema.body]).table(2)
    place = schema.metadata + table._at
    (back,) = struct.unpack_from("<i", STREAM, place)
    with pytest.raises(ArrowRefused, match="is big-endian"):
        read(patched(STREAM, place - back + 4, table._slots[1], "H"))


def test_an_unknown_version_of_the_format_is_refused():
    (schema, _) = messages_of(STREAM)
    table = Table.root(STREAM[schema.metadata : schema.body])
    with pytest.raises(ArrowRefused, match="version of the format"):
        read(patched(STREAM, schema.metadata + table._at + table._slots[0], 2, "h"))


def test_what_is_too_long_to_mean_anything_takes_no_time():
    """A name of many kilobytes, and a table that says to have 30,000 fields, in a schema of which there are dozens."""
    with pytest.raises(ArrowRefused, match="a name of 70000 bytes"):
        read(arrow_stream(pa.table({"x" * 70_000: [b""]})))
    wide = struct.pack("<H", 60_000).ljust(60_000, b"\0") + struct.pack("<i", 60_000)
    assert len(Table(wide, 60_000)._slots) == 16
