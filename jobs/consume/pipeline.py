"""Pipeline of records: the frame that is read, a user's function, an output. Knows Spark's frames; no group.

A function of frames is applied to the stream, once for each query; one of batches to each batch. Either may give up
records, by a column.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

from delta_log.model.errors import InvalidRequest
from jobs.consume.blame import blamed
from jobs.consume.dead_letter_column import computed, gives_up, rows_of
from jobs.consume.outputs import Output, check_columns
from jobs.consume.row_by_row import is_row_by_row
from jobs.consume.user_functions import UserFunction
from jobs.foundation.result import one_sentence

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["Made", "Pipeline"]


class Made(NamedTuple):
    """Result of a batch: rows to output, if any, and the frame with records given up, if it has that column."""

    rows: DataFrame | None
    giving_up: DataFrame | None = None


class Pipeline:
    """Pipeline of a job. `source`: options of the source for every query; `topic`: the one written to, if any.

    `keeps`: state is kept from batch to batch.
    """

    def __init__(
        self,
        source: Mapping[str, str],
        function: UserFunction | None,
        output: Output,
        topic: str | None,
        *,
        keeps: bool = False,
    ) -> None:
        self._source = source
        self._function = function
        self._output = output
        self._topic = topic
        self._keeps = self._remembers = keeps

    def check(self, spark: SparkSession, chosen: Mapping[str, str]) -> None:
        """Raise InvalidRequest if no query can be built."""
        self.frame(spark, chosen)

    def frame(self, spark: SparkSession, chosen: Mapping[str, str]) -> DataFrame:
        frame = self._applied(spark.readStream.format("lakelog").options(**self._source, **chosen).load())
        self._remembers = self._keeps or not is_row_by_row(frame)
        gives_up(frame.schema)
        if self._topic is not None and (self._function is None or not self._function.per_batch):
            check_columns(frame.schema, self._topic)
        return frame

    @property
    def remembers(self) -> bool:
        """True if the output of a record depends on others, so that a part of a batch cannot be processed alone."""
        return self._remembers

    def of_part(self, records: DataFrame) -> DataFrame:
        """Apply a function of frames to the records of a part, as the stream does."""
        return self._applied(records)

    @contextmanager
    def made(self, batch: DataFrame, batch_id: int) -> Generator[Made]:
        """Apply a function of batches; if it returns None, there is nothing to output."""
        result = batch
        if self._function is not None and self._function.per_batch:
            with blamed():
                result = self._function.call(batch, batch_id)
            if result is None:
                yield Made(None)
                return
            _check_frame(self._function, result, streaming=False)
        if not gives_up(result.schema):
            yield Made(result)
            return
        with computed(result) as kept:
            rows = rows_of(kept)
            yield Made(rows if rows.columns else None, kept)

    def put(self, rows: DataFrame, transaction: str | None = None) -> None:
        """Output rows; done when it returns."""
        if self._topic is not None and self._function is not None and self._function.per_batch:
            check_columns(rows.schema, self._topic)
        with blamed(BrokenPipeError):  # the reader of stdout is gone
            self._output(rows, transaction)

    def _applied(self, frame: DataFrame) -> DataFrame:
        function = self._function
        if function is None or function.per_batch:
            return frame
        try:
            result = function.call(frame)
        except Exception as error:
            raise InvalidRequest(f"--module {function.name} failed: {one_sentence(error)}") from error
        _check_frame(function, result, streaming=frame.isStreaming)
        return result


def _check_frame(function: UserFunction, result: Any, *, streaming: bool) -> None:
    if not hasattr(result, "isStreaming"):
        nothing = "" if streaming else ", or nothing,"
        raise InvalidRequest(f"--module {function.name} must answer a DataFrame{nothing} and answered {result!r:.60}")
    if result.isStreaming != streaming:
        raise InvalidRequest(f"--module {function.name} must make its DataFrame of the one that it is given")
