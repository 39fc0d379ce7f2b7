"""Writing, as Spark calls it: tasks stage, the driver decides."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter

from jobs.source.errors import SourceError
from jobs.source.options import WriteOptions
from jobs.source.staging import Staged, Version, decide, give_up, stage
from jobs.source.worker_latency import Prompt

#: Properties that Spark passes to tasks of a stream's batch. The id of the query is that in its checkpoint.
_QUERY: Final = "sql.streaming.queryId"
_BATCH: Final = "streaming.sql.batchId"


class BatchWriter(Prompt, DataSourceArrowWriter):
    def __init__(self, options: WriteOptions) -> None:
        self._options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Staged:
        sink, number = self._options.sink, self._options.version
        return stage(iterator, self._options, None if sink is None or number is None else Version(sink, number))

    def commit(self, messages: list[Any]) -> None:
        decide(messages, self._options)

    def abort(self, messages: list[Any]) -> None:
        give_up(messages, self._options)


class StreamWriter(Prompt, DataSourceStreamArrowWriter):
    def __init__(self, options: WriteOptions) -> None:
        self._options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Staged:
        return stage(iterator, self._options, _version_of_task(self._options) if self._options.once else None)

    def commit(self, messages: list[Any], batchId: int) -> None:  # noqa: N803 - Spark's
        decide(messages, self._options, batchId)

    def abort(self, messages: list[Any], batchId: int) -> None:  # noqa: ARG002, N803 - Spark's
        give_up(messages, self._options)


def _version_of_task(options: WriteOptions) -> Version:
    context = TaskContext.get()
    query, batch = (None, None) if context is None else map(context.getLocalProperty, (_QUERY, _BATCH))
    if query is None or batch is None:
        raise SourceError("Spark does not say which batch a task is of, so it cannot be stored exactly once")
    return Version(options.sink or f"spark-{query}", int(batch))
