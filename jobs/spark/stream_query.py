"""Streaming queries of jobs: batches are handed on one after the other, and a query ends between two of them.

    ended = run_query(frame.writeStream…, work, stop=…)         work(batch, batch_id), in this process
    read_offsets(spark, checkpoint, batch_id)                   where a batch ends, known before it is worked on
    read_query_id(spark, checkpoint)                            the name of what is kept there

It knows Spark's streams and where they keep their offsets; not what is read or made of it.
"""

from __future__ import annotations

import contextlib
import json
import shutil
import sys
import tempfile
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote, urlsplit

from jobs.foundation.result import Unfinished
from jobs.spark.failure_causes import cause_of, is_of_spark
from jobs.spark.jvm import SparkGone, is_end_of_java

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

__all__ = ["read_offsets", "read_query_id", "run_query", "temporary_checkpoint"]

Work = Callable[["DataFrame", int], None]
#: Spark waits ten seconds for a process of Python that it starts, and no longer: on a busy machine that is not much.
_TOO_SLOW: Final = "failed to connect back"
#: So it is given two minutes, as a server is that does not answer.
_MOST_STARTS: Final = 12
_LOOK_EVERY_S: Final = 0.1
#: What Spark writes of a source that has no offset.
_NOWHERE: Final = "-"
_TURN_S: Final = 0.05


def run_query(writer: DataStreamWriter, work: Work, *, stop: Callable[[], bool]) -> bool:
    """Have `work` done with each batch; answers whether the query came to its end, and False where `stop` was true.

    A batch that is in hand is finished in any case. What `work` raises is raised here; Unfinished says why else a query
    has failed.
    """
    turns = _Turns(work)
    query = writer.foreachBatch(turns).start()
    starts = 1
    try:
        while not stop():
            try:
                if _has_ended(query, turns):
                    return True
            except _NotBegun:
                if starts == _MOST_STARTS:
                    raise
                starts += 1
                query = writer.start()
    except KeyboardInterrupt:
        # At once, so nobody waits for the batch in hand: it ends when what it computes is cancelled.
        threading.Thread(target=query.stop, daemon=True).start()
        raise
    finally:
        if not isinstance(sys.exception(), KeyboardInterrupt):
            turns.end()
            _stop(query)
    if turns.failure is not None:
        raise turns.failure
    return False


@contextmanager
def temporary_checkpoint() -> Generator[str]:
    """For a query that keeps nothing beyond its run. Only the driver writes there while no state is kept."""
    directory = tempfile.mkdtemp(prefix="lakelog-query-")
    try:
        yield f"file:{directory}"
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def read_offsets(spark: SparkSession, checkpoint: str, batch_id: int) -> list[Any]:
    """Where a batch ends, by the sources of a query, as each has it: `{"topic": {"0": next offset}}`, or otherwise.

    Of one that has not begun it is None. Spark writes it down before it works on the batch.
    """
    _version, _settings, *sources = _read_lines(spark, f"{checkpoint}/offsets/{batch_id}")
    return [None if source == _NOWHERE else json.loads(source) for source in sources]


def read_query_id(spark: SparkSession, checkpoint: str) -> str:
    """Of a query that has begun. Every later one that goes on from its checkpoint has the same."""
    (line, *_) = _read_lines(spark, f"{checkpoint}/metadata")
    return str(json.loads(line)["id"])


class _NotBegun(Unfinished):
    """A query that failed before it had anything to do, as a process of its came too late."""


class _Turns:
    """One batch at a time, and none once it has ended."""

    def __init__(self, work: Work) -> None:
        self._work = work
        self._turn = threading.Lock()
        self._ended = threading.Event()
        self.begun = False
        self.failure: BaseException | None = None

    def __call__(self, batch: DataFrame, batch_id: int) -> None:
        # Who ends holds the turn, and Spark waits for this thread, so it must not wait for ever.
        while not self._turn.acquire(timeout=_TURN_S):
            if self._ended.is_set():
                return
        try:
            if not self._ended.is_set() and self.failure is None:
                self.begun = True
                self._work(batch, batch_id)
        except BaseException as error:
            self.failure = _plainly(error)
            raise
        finally:
            self._turn.release()

    def end(self) -> None:
        """After the batch in hand. The turn is kept: nobody's batch begins any more."""
        self._turn.acquire()
        self._ended.set()


def _plainly(error: BaseException) -> BaseException:
    """What Spark raises where a batch is computed is told by its cause."""
    if is_end_of_java(error):
        return SparkGone()
    return Unfinished(f"the query failed: {cause_of(error)}") if is_of_spark(error) else error


def _stop(query: StreamingQuery) -> None:
    try:
        query.stop()
    except Exception as error:
        if not is_end_of_java(error):
            raise


def _has_ended(query: StreamingQuery, turns: _Turns) -> bool:
    try:
        return bool(query.awaitTermination(_LOOK_EVERY_S))  # pyright: ignore[reportArgumentType] - parts of seconds, too
    except Exception as error:
        if turns.failure is not None:
            raise turns.failure from None
        if is_end_of_java(error):
            raise SparkGone from error
        kind = _NotBegun if _TOO_SLOW in str(error) and not turns.begun else Unfinished
        raise kind(f"the query failed: {cause_of(error)}") from error


def _read_lines(spark: SparkSession, path: str) -> list[str]:
    local = _local(path)
    if local is not None:
        return local.read_text(encoding="utf-8").splitlines()
    rows: list[Any] = spark.read.text(path, wholetext=True).collect()
    return str(rows[0][0]).splitlines()


def _local(path: str) -> Path | None:
    scheme, found, _ = path.partition(":")
    if found and scheme == "file":
        return Path(unquote(urlsplit(path).path))
    with contextlib.suppress(OSError):
        if not found and Path(path).is_file():
            return Path(path)
    return None
