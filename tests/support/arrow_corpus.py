"""Arrow streams of every type that pyarrow can make, to begin a search for a crash from."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pyarrow as pa

from delta_log.model.schema import FILE_SCHEMA, HEADERS, RECORD_COLUMNS, TIMESTAMP
from lakelog.consume.arrow import batch_schema

ROWS = 4
_LONG = b"a value that does not fit into a view"
_PAIR = pa.struct([("key", pa.string()), ("value", pa.binary())])


def written(table: pa.Table | pa.RecordBatch, *, chunk: int | None = None, **options: Any) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema, options=pa.ipc.IpcWriteOptions(**options)) as writer:
        if isinstance(table, pa.Table):
            writer.write_table(table, max_chunksize=chunk)
        else:
            writer.write_batch(table)
    return sink.getvalue().to_pybytes()


def every_column() -> dict[str, pa.Array]:
    """A null in each, where the type has one: what lies below it is what nobody looks at."""
    numbers = pa.array([1, None, 3, 0], pa.int64())
    plain = [
        *(pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()),
        *(pa.float16(), pa.float32(), pa.float64(), pa.duration("s"), pa.timestamp("ms"), TIMESTAMP, pa.date64()),
        *(pa.time64("us"), pa.decimal32(9), pa.decimal64(18), pa.decimal128(20), pa.decimal256(40), pa.bool_()),
    ]
    columns = {str(kind): _cast(numbers, kind) for kind in plain}
    columns |= {str(kind): _cast(numbers.cast(pa.int32()), kind) for kind in (pa.date32(), pa.time32("s"))}
    texts = pa.array([b"k", None, _LONG, b""])
    kinds = (pa.binary(), pa.large_binary(), pa.string(), pa.large_string(), pa.binary_view(), pa.string_view())
    columns |= {str(kind): texts.cast(pa.string()).cast(kind) for kind in kinds}
    columns["interval"] = pa.array([(1, 2, 3), None, (0, 0, 0), (-1, 5, 9)], pa.month_day_nano_interval())
    columns["fixed"] = pa.array([b"ab", None, b"cd", b"\0\0"], pa.binary(2))
    columns["null"] = pa.nulls(ROWS)
    pairs = [[{"key": "h", "value": b"v"}], None, [], [{"key": "i", "value": None}] * 2]
    lists = (HEADERS, pa.large_list(_PAIR), pa.list_view(_PAIR), pa.large_list_view(_PAIR))
    columns |= {f"{kind.id} of pairs": pa.array(pairs, kind) for kind in lists}
    columns["fixed list"] = pa.array([[1, 2], None, [3, 4], [None, 5]], pa.list_(pa.int32(), 2))
    columns["map"] = pa.array([[("a", b"b")], None, [], [("c", None)]], pa.map_(pa.string(), pa.binary()))
    columns["struct"] = pa.array([{"key": "a", "value": b"b"}, None, {"key": None, "value": None}, {}], _PAIR)
    columns["deep"] = pa.array([[[[1]]], None, [], [[None, [2, None]]]], pa.list_(pa.list_(pa.list_(pa.int8()))))
    columns["decimals"] = pa.array([[Decimal(1)], None, [], [None]], pa.list_(pa.decimal128(5)))
    for index in (pa.int8(), pa.uint32(), pa.int64()):
        for values in ("binary", "large_string", "string_view", "fixed", "int64", "null"):
            distinct = columns[values].slice(0, 3)
            columns[f"{index} into {values}"] = pa.DictionaryArray.from_arrays(
                pa.array([0, None, 2, 1], index), distinct
            )
    columns["runs"] = pa.RunEndEncodedArray.from_arrays(pa.array([1, 4], pa.int32()), pa.array([_LONG, None]))
    inside = [pa.array([1, None, 3, 4]), columns["binary"]]
    columns["sparse"] = pa.UnionArray.from_sparse(pa.array([0, 1, 1, 0], pa.int8()), inside)
    columns["dense"] = pa.UnionArray.from_dense(
        pa.array([0, 1, 1, 0], pa.int8()), pa.array([0, 1, 3, 2], pa.int32()), inside
    )
    columns["uuid"] = pa.ExtensionArray.from_storage(pa.uuid(), pa.array([b"u" * 16] * ROWS, pa.binary(16)))
    columns["views in a list"] = pa.array([["a"], None, [], [_LONG.decode()] * 2], pa.list_(pa.string_view()))
    return columns


def _cast(numbers: pa.Array, kind: pa.DataType) -> pa.Array:
    if pa.types.is_decimal(kind):
        return pa.array([None if each is None else Decimal(each) for each in numbers.to_pylist()], kind)
    return numbers.cast(pa.float64()).cast(kind) if pa.types.is_floating(kind) else numbers.cast(kind)


def every_stream() -> list[bytes]:
    """Each type as a value, and where else it may be tried."""
    plain = pa.array([b"a", None, _LONG, b""])
    found: list[bytes] = []
    for column in every_column().values():
        for table in (pa.table({"value": column}), pa.table({"key": column, "value": plain, "headers": column})):
            found += [written(table), written(table, compression="zstd")]
    return found


def views() -> list[bytes]:
    """Types that say what is read below a null, too, and that Arrow's validation passes by."""
    columns = every_column()
    return [written(pa.table({"value": columns[name]})) for name in ("binary_view", "string_view")]


def requests() -> list[bytes]:
    """What produce takes."""
    columns = every_column()
    taken = pa.table(
        {
            "key": columns["large_string"],
            "value": columns["binary"],
            "partition": pa.array([0, None, 1, 0], pa.int16()),
            "timestamp": pa.array([5, None, 7, 8], TIMESTAMP),
            "headers": columns[f"{HEADERS.id} of pairs"],
        }
    )
    coded = pa.table({"key": columns["int8 into binary"], "value": columns["uint32 into large_string"]})
    others = pa.table({"key": columns["fixed"], "value": columns["string"], "headers": columns["map"]})
    tables = (taken, coded, others, pa.table({"value": columns["binary"]}), pa.table({"value": columns["null"]}))
    many = pa.table({"key": pa.array([b"%d" % number for number in range(700)]), "value": [b"v"] * 700})
    options: tuple[dict[str, Any], ...] = ({}, {"compression": "lz4"}, {"compression": "zstd"}, {"chunk": 1})
    found = [written(table, **each) for table in tables for each in options]
    return [*found, written(many), written(taken, use_legacy_format=True), _growing()]


def _growing() -> bytes:
    """A dictionary that is added to, and one that is replaced."""
    kind = pa.dictionary(pa.int8(), pa.string())
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(emit_dictionary_deltas=True)
    with pa.ipc.new_stream(sink, pa.schema([("value", kind)]), options=options) as writer:
        for values in (["a"], ["a", "b"], ["a", "b", "c"], ["x"]):
            column = pa.DictionaryArray.from_arrays(pa.array([len(values) - 1, None], pa.int8()), pa.array(values))
            writer.write_batch(pa.record_batch([column], names=["value"]))
    return sink.getvalue().to_pybytes()


def answers(schema: pa.Schema) -> list[bytes]:
    """What a server answers with these columns."""
    columns = every_column()
    have = {
        "topic": pa.DictionaryArray.from_arrays(pa.array([0, 1, 1, 0], pa.int32()), pa.array(["clicks", "orders"])),
        "partition": pa.array([0, 0, 1, 1], pa.int32()),
        "offset": pa.array([7, 8, 0, 1]),
        "timestamp": pa.array([5, 6, 7, 8], TIMESTAMP),
        "key": columns["binary"],
        "value": columns["binary"],
        "headers": columns[f"{HEADERS.id} of pairs"],
    }
    table = pa.Table.from_arrays([have[name] for name in schema.names], schema=schema)
    return [written(table), written(table, chunk=1), written(table, compression="lz4")]


def polled() -> list[bytes]:
    return answers(batch_schema())


def fetched() -> list[bytes]:
    return answers(
        pa.schema([pa.field("partition", pa.int32()), *(FILE_SCHEMA.field(name) for name in RECORD_COLUMNS)])
    )
