"""A Spark source that reads nothing: what rows of any source in Python take, however quickly it has them."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
from pyspark import cloudpickle
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType


def memory_frame(spark: Any, rows: pa.Table, tasks: int, times: int) -> Any:
    """The same rows so many times in each task, as batches as large as they come."""
    schema, batches = from_arrow_schema(rows.schema), rows.combine_chunks().to_batches()

    class Memory(DataSource):
        @classmethod
        def name(cls) -> str:
            return "memory"

        def schema(self) -> StructType:
            return schema

        def reader(self, schema: StructType) -> DataSourceReader:  # noqa: ARG002 - Spark's name
            return _Reader(batches, tasks, times)

    # Processes of Spark need not find the benchmarks.
    cloudpickle.register_pickle_by_value(sys.modules[__name__])
    spark.dataSource.register(Memory)
    return spark.read.format("memory").load()


class _Reader(DataSourceReader):
    def __init__(self, batches: Sequence[pa.RecordBatch], tasks: int, times: int) -> None:
        self._batches, self._tasks, self._times = batches, tasks, times

    def partitions(self) -> list[InputPartition]:
        return [InputPartition(number) for number in range(self._tasks)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:  # noqa: ARG002 - Spark's name
        for _ in range(self._times):
            yield from self._batches
