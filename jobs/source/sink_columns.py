"""Columns of the sink, as in Spark's Kafka sink, and rows of a frame as requests to the server. Pure.

`value` is required, `key`, `headers`, `topic` and `partition` are optional; other columns are not stored.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import StructType

from jobs.source.errors import InvalidOption, SourceError

_TAKEN: Final[Mapping[str, tuple[str, ...]]] = {
    "key": ("binary", "string"),
    "value": ("binary", "string"),
    "headers": ("array<struct<key:string,value:binary>>",),
    "partition": ("int",),
    "topic": ("string",),
}
_HEADERS: Final = pa.list_(pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())]))
_SENT: Final = {"key": pa.binary(), "value": pa.binary(), "headers": _HEADERS, "partition": pa.int32()}
#: Limits of one request, far below those of a server.
_ROWS: Final = 20_000
_BYTES: Final = 8 * 1024 * 1024


def check_sink_schema(schema: StructType, topic: str | None) -> None:
    """Refuse a schema that cannot be stored, before any row is."""
    kinds = {field.name: field.dataType.simpleString() for field in schema.fields}
    if "value" not in kinds:
        raise InvalidOption("schema", "there is no column 'value'")
    if topic is None and "topic" not in kinds:
        raise InvalidOption("topic", "say where the rows go: by this option, or by a column 'topic'")
    for name, taken in _TAKEN.items():
        if name in kinds and kinds[name] not in taken:
            raise InvalidOption("schema", f"column {name!r} is {kinds[name]}, and must be {' or '.join(taken)}")


def cut_requests(batch: pa.RecordBatch, topic: str | None) -> Iterator[tuple[str, pa.RecordBatch]]:
    """Cut rows into requests by topic that are not too large; the order within a topic is kept."""
    names = [name for name in _SENT if name in batch.schema.names]
    schema = pa.schema([pa.field(name, _SENT[name]) for name in names])
    columns = [batch.column(name).cast(_SENT[name]) for name in names]
    rows = pa.RecordBatch.from_arrays(columns, schema=schema)
    if topic is not None:
        yield from ((topic, piece) for piece in _cut(rows))
        return
    topics = batch.column("topic")
    if topics.null_count:
        raise SourceError("a row names no topic: its column 'topic' is null")
    for each in pc.unique(topics).to_pylist():
        yield from ((each, piece) for piece in _cut(rows.filter(pc.equal(topics, pa.scalar(each, topics.type)))))


def _cut(rows: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    if not rows.num_rows:
        return
    if rows.num_rows > 1 and (rows.num_rows > _ROWS or rows.nbytes > _BYTES):
        half = rows.num_rows // 2
        yield from _cut(rows.slice(0, half))
        yield from _cut(rows.slice(half))
    else:
        yield rows
