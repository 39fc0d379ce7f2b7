"""Batch queries: the offsets to read are fixed by the plan, which is made once for each action."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from jobs.source.options import ReadOptions
from jobs.source.planning import check_named, check_times_found, plan_spans, resolve, times_wanted
from jobs.source.positions import Limit, Positions, Range, TopicPartition
from jobs.source.readers import SliceReading, Task
from jobs.source.slices import warn_of


class BatchReader(DataSourceReader):
    def __init__(self, options: ReadOptions, schema: StructType) -> None:
        self._options = options
        self._reading = SliceReading(options, schema)

    def partitions(self) -> list[Task]:
        options = self._options
        try:
            ranges = self._reading.ground.ranges(self._reading.ground.partitions())
            starts = resolve_now(self._reading, options.start, ranges, "startingOffsets", options.late_start)
            ends = resolve_now(self._reading, options.end, ranges, "endingOffsets", "latest")
            spans, losses = plan_spans(starts, ends, ranges)
            warn_of(losses, fail=options.fail_on_data_loss)
            return self._reading.tasks(spans)
        finally:
            self._reading.close()

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return self._reading.read_task(partition)


def resolve_now(
    reading: SliceReading, limit: Limit, ranges: dict[TopicPartition, Range], option: str, strategy: str
) -> Positions:
    """Resolve a limit to a position in each partition, as of now."""
    check_named(limit, ranges, option)
    at_times = reading.ground.at_times(times_wanted(limit, ranges))
    check_times_found(limit, at_times, strategy)
    return resolve(limit, ranges, at_times)
