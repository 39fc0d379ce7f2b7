"""Columns of the source, as in Spark's Kafka source, and conversion of rows of the log to them. Pure.

A user's schema may have fewer columns: the others are not decoded.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

import pyarrow as pa
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from jobs.source.errors import InvalidOption
from jobs.source.positions import TopicPartition

HEADERS: Final = ArrayType(StructType([StructField("key", StringType()), StructField("value", BinaryType())]))
_TYPES: Final[Mapping[str, DataType]] = {
    "key": BinaryType(),
    "value": BinaryType(),
    "topic": StringType(),
    "partition": IntegerType(),
    "offset": LongType(),
    "timestamp": TimestampType(),
    "timestampType": IntegerType(),
    "headers": HEADERS,
}
#: Columns of a record itself, in the order in which they are read.
RECORD: Final = ("offset", "timestamp", "key", "value", "headers")

#: Rows of a batch for Spark. A batch is written, sent and read by another process: large ones would not stay in the
#: CPU caches in between.
_PIECE: Final = 8192


def spark_schema(*, headers: bool) -> StructType:
    return StructType([StructField(name, kind) for name, kind in _TYPES.items() if headers or name != "headers"])


def check_schema(schema: StructType) -> None:
    """Check that a user's schema has only columns of the source, with their types."""
    for field in schema.fields:
        kind = _TYPES.get(field.name)
        if kind is None:
            raise InvalidOption("schema", f"there is no column {field.name!r}: there are {', '.join(_TYPES)}")
        if field.dataType.simpleString() != kind.simpleString():
            raise InvalidOption("schema", f"column {field.name!r} is {kind.simpleString()}")


def record_columns(names: list[str]) -> tuple[str, ...]:
    """Columns of a record to read for these output columns; always with the offset."""
    return tuple(name for name in RECORD if name == "offset" or name in names)


class Shaper:
    """Converts rows of one partition to batches of a schema, small enough to stay in a core's cache."""

    def __init__(self, schema: pa.Schema, of: TopicPartition, timestamp_type: int) -> None:
        self._schema = schema
        same: dict[str, pa.Scalar] = {
            "topic": pa.scalar(of.topic, pa.string()),
            "partition": pa.scalar(of.partition, pa.int32()),
            "timestampType": pa.scalar(timestamp_type, pa.int32()),
        }
        self._same = {name: value for name, value in same.items() if name in schema.names}
        self._repeated: dict[str, pa.Array] = {}

    def shape(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        shaped = self._shaped(batch)
        for start in range(0, shaped.num_rows, _PIECE):
            yield shaped.slice(start, _PIECE)

    def _shaped(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        if not self._schema.names:
            # Without columns, the number of rows is kept only by a batch derived from one that has it.
            return rows.select([])
        columns = [
            self._repeat(field.name, rows.num_rows) if field.name in self._same else rows.column(field.name)
            for field in self._schema
        ]
        cast = [
            column if column.type == field.type else column.cast(field.type)
            for column, field in zip(columns, self._schema, strict=True)
        ]
        return pa.RecordBatch.from_arrays(cast, schema=self._schema)

    def _repeat(self, name: str, rows: int) -> pa.Array:
        repeated = self._repeated.get(name)
        if repeated is None or len(repeated) < rows:
            repeated = self._repeated[name] = pa.repeat(self._same[name], rows)
        return repeated.slice(0, rows)
