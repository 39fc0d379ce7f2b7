"""The columns of the source, those of Spark's Kafka source, and rows of the log as those columns. Pure.

A user may ask for fewer by a schema of his own: what is not in it is not decoded.
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
#: What a record itself has, in the order in which it is read.
RECORD: Final = ("offset", "timestamp", "key", "value", "headers")

#: Of rows that are handed to Spark at once. A batch is written, sent and read by another process: large ones leave the
#: caches in between, each time.
_PIECE: Final = 8192


def spark_schema(*, headers: bool) -> StructType:
    return StructType([StructField(name, kind) for name, kind in _TYPES.items() if headers or name != "headers"])


def check_schema(schema: StructType) -> None:
    """A schema of the user's own has some of the columns, as they are."""
    for field in schema.fields:
        kind = _TYPES.get(field.name)
        if kind is None:
            raise InvalidOption("schema", f"there is no column {field.name!r}: there are {', '.join(_TYPES)}")
        if field.dataType.simpleString() != kind.simpleString():
            raise InvalidOption("schema", f"column {field.name!r} is {kind.simpleString()}")


def record_columns(names: list[str]) -> tuple[str, ...]:
    """What must be read of a record to have these columns; its offset always."""
    return tuple(name for name in RECORD if name == "offset" or name in names)


class Shaper:
    """Rows of one partition as batches of a schema, each so small that it stays in a core's cache on its way."""

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
            # An array of columns would say how many rows there are; without one only a batch that is made so knows.
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
