"""Streaming queries of jobs: batches are processed one after the other, and a query ends between two of them.

    ended = run_query(frame.writeStream…, work, stop=…)         work(batch, batch_id), in this process
    read_offsets(spark, checkpoint, batch_id)                   end offsets of a batch, known before it is processed
    read_query_id(spark, checkpoint)                            the id of the query in a checkpoint

It knows Spark's streams and where they store their offsets; not what is read or made of it.
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
#: Spark waits only ten seconds for a Python process that it starts, which can be too short on a busy machine.
_TOO_SLOW: Final = "failed to connect back"
#: Retries for about two minutes in total, as for a server that does not answer.
_MOST_STARTS: Final = 12
_LOOK_EVERY_S: Final = 0.1
#: Spark's text for a source without an offset.
_NOWHERE: Final = "-"
_TURN_S: Final = 0.05


def run_query(writer: DataStreamWriter, work: Work, *, stop: Callable[[], bool]) -> bool:
    """Run `work` on each batch; returns True if the query came to its end, and False if `stop` was true.

    A batch in hand is finished in any case. Errors of `work` are raised here; other failures of the query are
    Unfinished.
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
        # At once, without waiting for the batch in hand: it ends when its computation is cancelled.
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
    """Yield a checkpoint folder for a query without state; only the driver writes there."""
    directory = tempfile.mkdtemp(prefix="lakelog-query-")
    try:
        yield f"file:{directory}"
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def read_offsets(spark: SparkSession, checkpoint: str, batch_id: int) -> list[Any]:
    """Read the end offsets of a batch, one value for each source: `{"topic": {"0": next offset}}`, or its own form.

    None for a source without an offset. Spark writes them before it processes the batch.
    """
    _version, _settings, *sources = _read_lines(spark, f"{checkpoint}/offsets/{batch_id}")
    return [None if source == _NOWHERE else json.loads(source) for source in sources]


def read_query_id(spark: SparkSession, checkpoint: str) -> str:
    """Read the id of a started query. Later queries that continue its checkpoint have the same."""
    (line, *_) = _read_lines(spark, f"{checkpoint}/metadata")
    return str(json.loads(line)["id"])


class _NotBegun(Unfinished):
    """A query that failed before its first batch, as one of its processes started too slowly."""


class _Turns:
    """Runs one batch at a time, and none after `end`."""

    def __init__(self, work: Work) -> None:
        self._work = work
        self._turn = threading.Lock()
        self._ended = threading.Event()
        self.begun = False
        self.failure: BaseException | None = None

    def __call__(self, batch: DataFrame, batch_id: int) -> None:
        # `end` keeps the lock, and Spark waits for this thread, so it must not block for ever.
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
        """Wait for the batch in hand, and keep the lock, so that no further batch begins."""
        self._turn.acquire()
        self._ended.set()


def _plainly(error: BaseException) -> BaseException:
    """Replace an error of Spark by one with its cause."""
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
