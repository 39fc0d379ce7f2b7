"""Schemas of rows: in a topic's table, in its parquet files, and in the internal tables."""

from __future__ import annotations

from typing import Any, Final

import msgspec
import pyarrow as pa

TIMESTAMP: Final = pa.timestamp("us", tz="UTC")
HEADER: Final = pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())])
HEADERS: Final = pa.list_(pa.field("element", HEADER))

#: The columns of a topic's parquet files; `partition` is in the path, as usual in Delta.
FILE_SCHEMA: Final = pa.schema(
    [
        pa.field("offset", pa.int64()),
        pa.field("timestamp", TIMESTAMP),
        pa.field("key", pa.binary()),
        pa.field("value", pa.binary()),
        pa.field("headers", HEADERS),
        pa.field("producer_id", pa.string()),
        pa.field("producer_epoch", pa.int32()),
        pa.field("sequence", pa.int64()),
    ]
)

#: Rows of a row group: the least that a small read of a large file must decode.
ROW_GROUP: Final = 10_000
#: Bytes of a row group before compression: with large records it has fewer rows.
ROW_GROUP_BYTES: Final = 16 * 1024 * 1024

#: The columns that a reader of records gets.
RECORD_COLUMNS: Final = ("offset", "timestamp", "key", "value", "headers")

#: A row for each request of an idempotent producer; `commit_seq` is its place in the table, like an offset.
PRODUCERS_SCHEMA: Final = pa.schema(
    [
        pa.field("commit_seq", pa.int64()),
        pa.field("producer_id", pa.string()),
        pa.field("topic", pa.string()),
        pa.field("topic_id", pa.string()),
        pa.field("epoch", pa.int32()),
        pa.field("sequence", pa.int64()),
        pa.field("count", pa.int64()),
        pa.field("digest", pa.binary()),
        pa.field("partitions", pa.int32()),
        pa.field(
            "ranges",
            pa.list_(
                pa.field(
                    "element",
                    pa.struct(
                        [
                            pa.field("partition", pa.int32()),
                            pa.field("base_offset", pa.int64()),
                            pa.field("count", pa.int64()),
                        ]
                    ),
                )
            ),
        ),
        pa.field("timestamp", TIMESTAMP),
    ]
)

_PRIMITIVES: Final[dict[pa.DataType, str]] = {
    pa.int32(): "integer",
    pa.int64(): "long",
    pa.string(): "string",
    pa.binary(): "binary",
    pa.bool_(): "boolean",
    TIMESTAMP: "timestamp",
}


def delta_schema(schema: pa.Schema, *, partitioned: bool) -> str:
    """The Delta schema string of a table; a partitioned one has `partition` as its first column."""
    fields = [_delta_field(field) for field in schema]
    if partitioned:
        fields.insert(0, _delta_field(pa.field("partition", pa.int32())))
    return msgspec.json.encode({"type": "struct", "fields": fields}).decode()


def _delta_field(field: pa.Field[Any]) -> dict[str, object]:
    return {"name": field.name, "type": _delta_type(field.type), "nullable": field.nullable, "metadata": {}}


def _delta_type(kind: pa.DataType) -> object:
    if isinstance(kind, pa.ListType):
        return {"type": "array", "elementType": _delta_type(kind.value_type), "containsNull": True}
    if isinstance(kind, pa.StructType):
        return {"type": "struct", "fields": [_delta_field(field) for field in kind]}
    return _PRIMITIVES[kind]


def arrow_schema(text: str) -> pa.Schema:
    """Decode the schema of a flat table written by `delta_schema`; LookupError for any other."""
    kinds = {name: kind for kind, name in _PRIMITIVES.items()}
    fields = msgspec.json.decode(text)["fields"]
    return pa.schema([pa.field(field["name"], kinds[field["type"]], field["nullable"]) for field in fields])


def integer(number: int) -> pa.Scalar:
    """An Arrow scalar. For a plain number Arrow would look for pandas on each call, at twenty times the cost."""
    return pa.scalar(number, pa.int64())
