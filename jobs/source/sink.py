"""Writing, as Spark calls it: tasks stage, the driver decides."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter

from jobs.source.options import WriteOptions
from jobs.source.staging import Staged, decide, give_up, stage


class BatchWriter(DataSourceArrowWriter):
    def __init__(self, options: WriteOptions) -> None:
        self._options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Staged:
        return stage(iterator, self._options)

    def commit(self, messages: list[Any]) -> None:
        decide(messages)

    def abort(self, messages: list[Any]) -> None:
        give_up(messages)


class StreamWriter(DataSourceStreamArrowWriter):
    def __init__(self, options: WriteOptions) -> None:
        self._options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Staged:
        return stage(iterator, self._options)

    def commit(self, messages: list[Any], batchId: int) -> None:  # noqa: ARG002, N803 - Spark's
        decide(messages)

    def abort(self, messages: list[Any], batchId: int) -> None:  # noqa: ARG002, N803 - Spark's
        give_up(messages)
