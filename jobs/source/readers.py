"""Base of the readers of batches and streams: planned slices, and reading one in an executor.

Everything is opened lazily: a reader is sent to executors, which open what they need themselves.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from jobs.source.columns import Shaper, record_columns
from jobs.source.options import ReadOptions
from jobs.source.planning import Slice, Span, split
from jobs.source.record_source import RecordSource
from jobs.source.slices import SliceReader
from jobs.source.worker_latency import Prompt, spare_the_collector


class Task(InputPartition):
    """A slice, as Spark sends it to an executor."""

    def __init__(self, of: Slice) -> None:
        super().__init__(of)
        self.of = of


class SliceReading(Prompt):
    def __init__(self, options: ReadOptions, schema: StructType) -> None:
        self._options = options
        self._schema = schema
        self._ground: RecordSource | None = None

    def __getstate__(self) -> dict[str, Any]:
        """Pickle for an executor, without what this process has open."""
        return self.__dict__ | {"_ground": None}

    @property
    def ground(self) -> RecordSource:
        if self._ground is None:
            self._ground = RecordSource(self._options)
        return self._ground

    def close(self) -> None:
        if self._ground is not None:
            self._ground.close()
            self._ground = None

    def tasks(self, spans: Sequence[Span]) -> list[Task]:
        options = self._options
        pieces = split(spans, tasks=options.min_tasks, most=options.most_of_a_task)
        return [Task(each) for each in self.ground.slices(pieces)]

    def read_task(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read a task; nothing for the dummy partition that Spark plans if there are none."""
        if not isinstance(partition, Task):
            return
        options = self._options
        schema = to_arrow_schema(self._schema, timezone="UTC")
        reader = SliceReader(
            partition.of,
            record_columns(schema.names),
            path=options.path,
            server=options.server,
            patience_ms=options.patience_ms,
            fail_on_data_loss=options.fail_on_data_loss,
        )
        shaper = Shaper(schema, partition.of.span.of, partition.of.timestamp_type)
        spare_the_collector()
        for batch in reader.read():
            yield from shaper.shape(batch)
