"""Tables as parquet blobs: whatever comes back is what was written."""

from datetime import UTC, datetime

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from delta_log.delta.checksums import sealed_footer, sealed_parts
from delta_log.delta.parquet import encode_groups, encode_parquet, read_file, read_parts, read_row_groups, time_bounds
from delta_log.model.errors import Corruption
from delta_log.model.schema import FILE_SCHEMA, ROW_GROUP, ROW_GROUP_BYTES
from delta_log.model.topic_config import ParquetCodec, TopicConfig
from delta_log.model.types import LATEST_MS
from delta_log.stores import MemoryStore

ORDER = ("offset", "timestamp")
BYTES = st.none() | st.binary(max_size=20)
HEADER = st.fixed_dictionaries({"key": st.text(max_size=5), "value": BYTES})
ROW = st.fixed_dictionaries(
    {
        "offset": st.integers(0, 2**62),
        "timestamp": st.integers(0, LATEST_MS * 1000 + 999),
        "key": BYTES,
        "value": BYTES,
        "headers": st.none() | st.lists(HEADER, max_size=3),
        "producer_id": st.none() | st.text(max_size=5),
        "producer_epoch": st.none() | st.integers(0, 2**31 - 1),
        "sequence": st.none() | st.integers(0, 2**62),
    }
)


def rows(*offsets: int) -> pa.Table:
    made = [{"offset": n, "timestamp": n, "key": b"%d" % n, "value": None} for n in offsets]
    return pa.Table.from_pylist(made, FILE_SCHEMA)


def stored(table: pa.Table, codec: ParquetCodec | None = None) -> tuple[MemoryStore, bytes]:
    store = MemoryStore()
    data = encode_parquet(table, codec or ParquetCodec(), ordered_by=ORDER)
    store.put("file", data)
    return store, bytes(data)


@given(content=st.lists(ROW, max_size=10))
def test_any_rows_come_back_as_they_were(content):
    """Null stays null and empty stays empty, in keys, values, headers and their values."""
    table = pa.Table.from_pylist(content, FILE_SCHEMA)
    store, _ = stored(table)
    assert read_file(store, "file", FILE_SCHEMA).equals(table)


@pytest.mark.parametrize("name", ["producer", "uncompressed", "zstd", "lz4", "snappy", "gzip"])
def test_every_codec_that_a_topic_may_have_is_written_and_read(name: str):
    table = rows(*range(100))
    codec = TopicConfig.of({"compression.type": name}).parquet_codec
    store, data = stored(table, codec)
    assert read_file(store, "file", FILE_SCHEMA).equals(table)
    written = pq.read_metadata(pa.BufferReader(data)).row_group(0).column(0).compression
    assert written == {"producer": "ZSTD", "lz4": "LZ4"}.get(name, name.upper())


def test_other_readers_of_parquet_need_no_schema_of_ours():
    """The types are in the file itself: a timestamp is an instant in UTC, to the microsecond."""
    data = stored(rows(1))[1]
    table = pq.read_table(pa.BufferReader(data))
    assert table.schema.equals(FILE_SCHEMA, check_metadata=False)
    assert table.column("timestamp")[0].as_py() == datetime(1970, 1, 1, 0, 0, 0, 1, tzinfo=UTC)


def test_a_changed_byte_in_a_data_page_is_corruption_that_names_the_file():
    store, data = stored(rows(*range(50)), ParquetCodec("none", None))
    at = data.index(b"1011121314"[:2], 200)
    damaged = bytearray(data)
    damaged[at] ^= 1
    store.put("file", bytes(damaged))
    with pytest.raises(Corruption, match="file is damaged") as found:
        read_file(store, "file", FILE_SCHEMA)
    assert found.value.file == "file"
    with pytest.raises(Corruption):
        list(read_row_groups(store, "file", FILE_SCHEMA.names, low=0, high=100))


#: Of a file that is read at once, and of one that is not.
SIZES = (1, 1 << 40)


@pytest.mark.parametrize("bit", [0x01, 0x80, 0xFF])
def test_no_damage_to_any_byte_misleads_a_reader(bit: int):
    """Pages have checksums, the footer has its seal: damage is found, or it hit what nobody reads."""
    table = rows(*range(20))
    store, data = stored(table)
    for at in range(len(data)):
        damaged = bytearray(data)
        damaged[at] ^= bit
        store.put("file", bytes(damaged))
        try:
            whole = read_file(store, "file", FILE_SCHEMA)
            groups = pa.concat_tables(read_row_groups(store, "file", FILE_SCHEMA.names, low=0, high=100))
            parts = [pa.concat_tables(read_parts(store, "file", FILE_SCHEMA.names, size)) for size in SIZES]
        except Corruption:
            continue
        assert all(read.equals(table) for read in (whole, groups, *parts)), at


@pytest.mark.parametrize("bit", [0x01, 0x80])
def test_no_damage_to_any_byte_is_overlooked_by_who_reads_all_of_them(bit: int):
    store, data = stored(rows(*range(20)))
    for at in range(len(data)):
        damaged = bytearray(data)
        damaged[at] ^= bit
        store.put("file", bytes(damaged))
        with pytest.raises(Corruption):
            read_file(store, "file", FILE_SCHEMA)
        with pytest.raises(Corruption):
            list(read_parts(store, "file", FILE_SCHEMA.names, 1 << 40, whole=True))
        with pytest.raises(ValueError, match="not what was written"):
            list(sealed_parts(store.open_input("file"), len(data)))


@pytest.mark.parametrize("size", [1, 7, 1000, 1 << 20])
def test_a_file_that_is_copied_in_parts_is_all_there_and_vouched_for(size: int):
    store, data = stored(rows(*range(20)))
    assert b"".join(sealed_parts(store.open_input("file"), size)) == data
    for damaged in (data[:40] + b"?" + data[41:], data[:-1], data[: len(data) // 2], b""):
        with pytest.raises(ValueError, match="not what was written"):
            list(sealed_parts(pa.BufferReader(damaged), size))


def test_a_file_that_was_written_in_parts_has_the_same_checksums():
    table = rows(*range(50))
    groups = [table.slice(begin, 10) for begin in range(0, 50, 10)]
    data = b"".join(map(bytes, encode_groups(groups, FILE_SCHEMA, ParquetCodec(), ordered_by=ORDER)))
    store = MemoryStore()
    store.put("file", data)
    assert read_file(store, "file", FILE_SCHEMA).equals(table)
    assert sealed_footer(pa.BufferReader(data), whole=True)


def test_a_file_of_an_older_version_which_vouches_for_its_footer_alone_is_read():
    store, data = stored(rows(*range(20)))
    at = data.rindex(b"lkl2")
    older = data[:at] + b"lkl1" + data[at + 8 :]
    store.put("file", older)
    assert read_file(store, "file", FILE_SCHEMA).equals(rows(*range(20)))
    store.put("file", older[:-30] + b"x" + older[-29:])
    with pytest.raises(Corruption, match="footer"):
        read_file(store, "file", FILE_SCHEMA)


def test_a_file_that_was_cut_anywhere_is_corruption():
    store, data = stored(rows(*range(20)))
    for length in range(0, len(data), 13):
        store.put("file", data[:length])
        with pytest.raises(Corruption):
            read_file(store, "file", FILE_SCHEMA)
        with pytest.raises(Corruption):
            list(read_row_groups(store, "file", FILE_SCHEMA.names, low=0, high=100))
        for size in SIZES:
            with pytest.raises(Corruption):
                list(read_parts(store, "file", FILE_SCHEMA.names, size))


def test_a_file_that_is_missing_is_not_a_damaged_one():
    with pytest.raises(FileNotFoundError):
        read_file(MemoryStore(), "file", FILE_SCHEMA)
    with pytest.raises(FileNotFoundError):
        list(read_row_groups(MemoryStore(), "file", ["offset"], low=0, high=1))


@pytest.mark.parametrize("size", SIZES)
def test_a_file_comes_row_group_by_row_group_however_large_it_is(size: int):
    table = rows(*range(25_000))
    store, _ = stored(table)
    parts = list(read_parts(store, "file", FILE_SCHEMA.names, size))
    assert [part.num_rows for part in parts] == [10_000, 10_000, 5_000]
    assert pa.concat_tables(parts).equals(table)
    few = list(read_parts(store, "file", ["offset", "key"], size, rows=20_000))
    assert [part.num_rows for part in few] == [20_000, 5_000]
    assert pa.concat_tables(few).equals(table.select(["offset", "key"]))
    with pytest.raises(FileNotFoundError):
        list(read_parts(store, "nothing", ["offset"], size))


@pytest.mark.parametrize("size", SIZES)
def test_columns_of_other_types_become_those_that_are_wanted_or_are_corruption(size: int):
    store, table = MemoryStore(), pa.table({"y": ["a", "b"], "x": pa.array([1, 2], pa.int32())})
    store.put("file", encode_parquet(table, ParquetCodec(), ordered_by=("x",)))
    wide = pa.schema([("x", pa.int64())])
    (part,) = read_parts(store, "file", wide.names, size, schema=wide)
    assert part.equals(pa.table({"x": pa.array([1, 2], pa.int64())}))
    for other in (pa.schema([("y", pa.int64())]), pa.schema([("z", pa.int64())])):
        with pytest.raises(Corruption):
            list(read_parts(store, "file", other.names, size, schema=other))


def test_a_file_of_another_shape_is_corruption():
    store = MemoryStore()
    store.put("file", encode_parquet(pa.table({"x": [1]}), ParquetCodec(), ordered_by=("x",)))
    with pytest.raises(Corruption):
        read_file(store, "file", FILE_SCHEMA)
    with pytest.raises(Corruption):
        list(read_row_groups(store, "file", ["offset"], low=0, high=1))


def test_a_file_that_another_program_wrote_is_corruption():
    """Nobody else writes here, so a footer without a seal is one that was damaged."""
    sink = pa.BufferOutputStream()
    pq.write_table(rows(1), sink, store_schema=False)
    store = MemoryStore()
    store.put("file", sink.getvalue())
    with pytest.raises(Corruption, match="footer"):
        read_file(store, "file", FILE_SCHEMA)
    assert sealed_footer(pa.BufferReader(sink.getvalue()), needed=False) == b""


@settings(max_examples=20)
@given(
    low=st.integers(0, 24_999),
    length=st.integers(1, 2 * ROW_GROUP),
    wanted=st.sampled_from([1, ROW_GROUP, 3 * ROW_GROUP]),
)
def test_only_row_groups_that_may_hold_the_range_are_read_and_all_of_those(low: int, length: int, wanted: int):
    parts = list(read_row_groups(LARGE, "file", ["offset"], low=low, high=low + length, rows=wanted))
    offsets = [offset for part in parts for offset in part.column("offset").to_pylist()]
    first, last = low // ROW_GROUP, min((low + length - 1) // ROW_GROUP, 2)
    assert offsets == list(range(first * ROW_GROUP, min((last + 1) * ROW_GROUP, 25_000)))
    assert all(part.num_rows <= wanted + ROW_GROUP - 1 for part in parts)


def test_columns_come_in_the_order_in_which_they_were_asked_for():
    part = next(read_row_groups(LARGE, "file", ["value", "offset", "key"], low=0, high=1))
    assert part.schema.names == ["value", "offset", "key"]


def test_a_large_footer_is_read_whole():
    """Longer than what is read of a file's end at once."""
    table = rows(*range(300))
    many = pa.table({f"c{n}_{'x' * 100}": table.column("offset") for n in range(300)})
    data = encode_parquet(many, ParquetCodec(), ordered_by=())
    assert len(sealed_footer(pa.BufferReader(data))) > 32 * 1024
    store = MemoryStore()
    store.put("file", data)
    assert read_file(store, "file", many.schema).equals(many)


@given(times=st.lists(st.integers(0, LATEST_MS * 1000 + 999), min_size=1, max_size=5))
def test_milliseconds_enclose_the_microseconds_of_a_file(times):
    """Up to the last one that the text of a statistic has room for."""
    table = pa.table({"timestamp": pa.array(times, pa.int64()).cast(FILE_SCHEMA.field("timestamp").type)})
    low, high = time_bounds(table)
    assert low * 1000 <= min(times)
    assert high * 1000 >= min(max(times), LATEST_MS * 1000)
    assert high <= LATEST_MS
    assert max(times) - high * 1000 < 1000


LARGE, _ = stored(rows(*range(25_000)))


def test_a_reader_of_a_few_large_records_need_not_decode_many():
    count, size = 200, 500_000
    columns = [pa.array(range(count)), *[pa.nulls(count, kind) for kind in FILE_SCHEMA.types[1:]]]
    columns[1] = pa.repeat(pa.scalar(0, FILE_SCHEMA.field("timestamp").type), count)
    columns[3] = pa.array([bytes(size)] * count, pa.binary())
    table = pa.Table.from_arrays(columns, schema=FILE_SCHEMA)
    store = MemoryStore()
    store.put("file", encode_parquet(table, ParquetCodec(), ordered_by=("offset", "timestamp")))
    parts = list(read_row_groups(store, "file", ["offset", "value"], low=0, high=count, rows=count, size=1))
    assert max(part.num_rows for part in parts) * size <= ROW_GROUP_BYTES
    assert sum(part.num_rows for part in parts) == count
    few = next(read_row_groups(store, "file", ["offset", "value"], low=100, high=count, rows=1))
    assert few.num_rows * size <= ROW_GROUP_BYTES
