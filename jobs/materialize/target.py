"""The output table, written by Spark's Delta: its schema, its mark, and one commit for each batch.

Delta stores a batch only if its number is above the last one of its sink, and silently skips it otherwise: so the
newest mark is read after each commit.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from typing import Any, Final, NamedTuple

from delta.exceptions import DeltaConcurrentModificationException
from delta.tables import DeltaTable
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql.types import StructType

from jobs.foundation.result import Unfinished, one_sentence
from jobs.materialize.commit_marks import Mark, Overtaken, find_mark
from jobs.materialize.latest_per_key import is_newer, quoted
from jobs.materialize.parsing import How

__all__ = ["Stored", "Target"]

#: Numbers of newest commits that are searched for a mark before all of them are.
_LOOKS: Final = (2, 200)
_NAME: Final = re.compile(r"\w+(\.\w+){1,2}")
_TRIES: Final = 10
_PAUSE_S: Final = 0.2
_TXN: Final = "spark.databricks.delta.write.txn{}"
_SAID: Final = "spark.databricks.delta.commitInfo.userMetadata"


class Stored(NamedTuple):
    """A stored mark, with its time."""

    mark: Mark
    at_ms: int


class Target:
    """Table given by its path, or by a name qualified by a schema. For one session."""

    def __init__(self, spark: SparkSession, where: str) -> None:
        self._spark = spark
        self.where = where
        self._is_name = _NAME.fullmatch(where) is not None

    def exists(self) -> bool:
        if self._is_name:
            return self._spark.catalog.tableExists(self.where)
        return DeltaTable.isDeltaTable(self._spark, self.where)

    def schema(self) -> StructType:
        return self.rows().schema

    def rows(self) -> DataFrame:
        return self._table().toDF()

    def create(self, schema: StructType) -> None:
        """Create the table unless it exists."""
        maker = DeltaTable.createIfNotExists(self._spark)
        maker = maker.tableName(self.where) if self._is_name else maker.location(self.where)
        maker.addColumns(schema).execute()

    def widen(self, schema: StructType) -> None:
        """Add the columns that the table lacks."""
        self._append(self._nothing(schema), {"mergeSchema": "true"})

    def load_mark(self, sink: str) -> Stored | None:
        for most in (*_LOOKS, None):
            history = self._table().history() if most is None else self._table().history(most)
            rows = history.select("userMetadata", "timestamp").collect()
            mark = find_mark((row["userMetadata"] for row in rows), sink)
            if mark is not None:
                at = next(row["timestamp"] for row in rows if find_mark([row["userMetadata"]], sink) is not None)
                return Stored(mark, int(at.timestamp() * 1000))
            if most is None or len(rows) < most:
                return None
        return None

    def store_nothing(self, mark: Mark) -> None:
        """Store a batch without rows, only for its mark."""
        self._store(mark, lambda: self._append(self._nothing(self.schema()), _as_options(mark)))

    def append(self, rows: DataFrame, mark: Mark) -> None:
        self._store(mark, lambda: self._append(rows.drop("gone"), _as_options(mark)))

    def merge(self, rows: DataFrame, mark: Mark, how: How) -> None:
        """Merge rows, at most one of each key."""
        same = " AND ".join(f"old.{quoted(name)} = new.{quoted(name)}" for name in how.by)
        newer = is_newer("new", "old", how.place)
        set_to: dict[str, str | Column] = {
            quoted(name): f"new.{quoted(name)}" for name in rows.columns if name != "gone"
        }

        def write() -> None:
            merging = self._table().alias("old").merge(rows.alias("new"), same)
            merging = merging.whenMatchedDelete(f"new.gone AND {newer}")
            merging = merging.whenMatchedUpdate(f"NOT new.gone AND {newer}", set_to)
            with self._saying(mark):
                merging.whenNotMatchedInsert("NOT new.gone", set_to).execute()

        self._store(mark, write)

    def _store(self, mark: Mark, write: Callable[[], None]) -> None:
        """Write a batch, with retries on conflicts; Overtaken if another batch has its number, which is final."""
        for left in reversed(range(_TRIES)):
            failure: Exception | None = None
            try:
                write()
            except DeltaConcurrentModificationException as error:
                failure = error
            found = self.load_mark(mark.sink)
            newest = None if found is None else found.mark
            if newest is not None and (newest.run, newest.batch) == (mark.run, mark.batch):
                return
            if failure is None or (newest is not None and newest.batch >= mark.batch):
                raise Overtaken
            if not left:
                raise Unfinished(f"others write to the table all the time: {one_sentence(failure)}") from failure
            time.sleep(_PAUSE_S)

    def _append(self, rows: DataFrame, options: Mapping[str, str]) -> None:
        writer = rows.write.format("delta").mode("append").options(**options)
        if self._is_name:
            writer.saveAsTable(self.where)
        else:
            writer.save(self.where)

    def _nothing(self, schema: StructType) -> DataFrame:
        session: Any = self._spark
        return session.createDataFrame([], schema)

    def _table(self) -> DeltaTable:
        if self._is_name:
            return DeltaTable.forName(self._spark, self.where)
        return DeltaTable.forPath(self._spark, self.where)

    @contextmanager
    def _saying(self, mark: Mark) -> Generator[None]:
        """Set the mark in the session's conf, as a merge has no options."""
        given = {
            _TXN.format("AppId"): mark.sink,
            _TXN.format("Version"): str(mark.batch),
            _SAID: mark.to_json(),
        }
        try:
            for name, value in given.items():
                self._spark.conf.set(name, value)
            yield
        finally:
            for name in given:
                self._spark.conf.unset(name)


def _as_options(mark: Mark) -> dict[str, str]:
    return {"txnAppId": mark.sink, "txnVersion": str(mark.batch), "userMetadata": mark.to_json()}
