"""A part of a batch as a frame of exactly its records, as the stream would give it.

A few records are read here, which is immediate; more are read by Spark's executors, which need a second to start. It
knows the source and its columns, and not why a part is read.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema

from jobs.consume.bisection import Spans, ends_of
from jobs.source.columns import RECORD, Shaper, spark_schema
from jobs.source.positions import Range, TopicPartition, to_json
from jobs.source.rest_client import OutOfRange
from jobs.source.server import Server

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["PartReader"]

_FEW: Final = 1_000
_BYTES: Final = 8 * 1024 * 1024
_OFFSET: Final = ("offset",)
_OF_STREAMS: Final = "maxOffsetsPerTrigger"


class PartReader:
    """Reader of parts. `source`: the options of the stream, which has headers."""

    def __init__(self, server: Server, source: Mapping[str, str]) -> None:
        self._server = server
        self._source = {name: value for name, value in source.items() if name != _OF_STREAMS}
        self._schema = spark_schema(headers=True)
        self._timestamp_types: dict[str, int] = {}

    def read(self, spark: SparkSession, spans: Spans) -> DataFrame | None:
        """Read a part; None if it has no record."""
        if sum(there.end - there.start for there in spans.values()) <= _FEW:
            found = self._read_here(spans)
            if found is not None:
                # In one task, as the rows of a partition come in one.
                session: Any = spark
                return session.createDataFrame(found, self._schema).coalesce(1) if found.num_rows else None
        if all(self.first(of, there) is None for of, there in spans.items()):
            return None
        begins = to_json({of: there.start for of, there in spans.items()})
        chosen = {
            "assign": json.dumps({topic: [int(each) for each in of] for topic, of in begins.items()}),
            "startingOffsets": json.dumps(begins),
            "endingOffsets": json.dumps(to_json(ends_of(spans))),
        }
        return spark.read.format("lakelog").options(**self._source, **chosen).load()

    def first(self, of: TopicPartition, there: Range) -> int | None:
        """Offset of the first record in a range; None if all were compacted away."""
        for batch in self._read(of, there, _OFFSET):
            return int(batch.column(0)[0].as_py())
        return None

    def _read_here(self, spans: Spans) -> pa.Table | None:
        """Read records in this process; None if they are too large."""
        schema = to_arrow_schema(self._schema, timezone="UTC")
        found: list[pa.RecordBatch] = []
        size = 0
        for of, there in sorted(spans.items()):
            shaper = Shaper(schema, of, self._timestamp_type(of.topic))
            for batch in self._read(of, there, RECORD):
                size += batch.nbytes
                if size > _BYTES:
                    return None
                found += shaper.shape(batch)
        return pa.Table.from_batches(found, schema)

    def _read(self, of: TopicPartition, there: Range, columns: tuple[str, ...]) -> Iterator[pa.RecordBatch]:
        position = there.start
        while position < there.end:
            try:
                for batch in self._server.read(of.topic, of.partition, position, there.end, columns):
                    position = int(batch.column(0)[-1].as_py()) + 1
                    yield batch
            except OutOfRange as error:
                if error.there.start <= position:
                    return
                position = error.there.start
            else:
                return

    def _timestamp_type(self, topic: str) -> int:
        if topic not in self._timestamp_types:
            self._timestamp_types[topic] = self._server.describe(topic).timestamp_type
        return self._timestamp_types[topic]
