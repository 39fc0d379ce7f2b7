"""Batches in sequence: dead letters, then the rows with the mark, in one commit, then the group's offsets.

Dead letters stored before a commit that failed are found again when the batch is repeated; offsets missing after a
commit are stored with the next batch.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Final

from pyspark import StorageLevel
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from delta_log.model.errors import LakelogError
from delta_log.runtime.syscalls import Probe
from jobs.foundation.result import one_sentence
from jobs.foundation.tolerant_output import write_if_room
from jobs.groups.dead_letters import Letter, Origin
from jobs.groups.group_client import Fenced, Groups
from jobs.materialize.commit_marks import Mark, Positions
from jobs.materialize.dead_letter_writer import DeadLetters
from jobs.materialize.latest_per_key import newest_rows
from jobs.materialize.parse_errors import explain_json
from jobs.materialize.parsing import How, bad_rows, good_rows, parsed
from jobs.materialize.target import Target
from jobs.source.positions import TopicPartition

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["Batches", "GroupOffsets"]

_PLACE: Final = "partition INT, offset BIGINT"

#: Called for each stored batch with the number of rows and of dead letters.
Tell = Callable[[int, int], None]


class Batches:
    """Batches of one query. `mark`: the latest mark of the table, updated with each batch.

    `check` raises if the records just read may be of another topic. `marked_s`: monotonic time at which the mark was
    stored or read.
    """

    def __init__(
        self,
        mark: Mark,
        how: How,
        letters: DeadLetters,
        *,
        where: str,
        run: str,
        check: Callable[[], None],
        tell: Tell,
        probe: Probe,
    ) -> None:
        self.mark, self.marked_s = mark, time.monotonic()
        self._how = how
        self._letters = letters
        self._where = where
        self._run = run
        self._check = check
        self._tell = tell
        self._at = probe

    def work(self, batch: DataFrame, ends: Positions) -> None:
        given_up = self._letters.given_up(self.mark)
        session: Any = batch.sparkSession
        known: DataFrame | None = session.createDataFrame(given_up, _PLACE) if given_up else None
        rows = parsed(batch, self._how, known).persist(StorageLevel.MEMORY_AND_DISK)
        try:
            (found,) = rows.agg(F.count("*"), F.count("reason")).collect()
            good, bad = found[0] - found[1], found[1]
            self._check()
            if not found[0]:
                return
            if bad:
                self._letters.store(self._bad(rows))
            self._at("materialize.lettered")
            reached = {**self.mark.next, **ends}
            bookmark = self._letters.bookmark(reached)
            mark = self.mark.following(self._run, ends, bookmark, rows=good, bad=bad)
            self._store(rows, mark)
            self.mark, self.marked_s = mark, time.monotonic()
            self._at("materialize.stored")
            self._tell(good, bad)
        finally:
            rows.unpersist()

    def _store(self, rows: DataFrame, mark: Mark) -> None:
        how = self._how
        target, good = Target(rows.sparkSession, self._where), good_rows(rows, how)
        if how.by:
            target.merge(newest_rows(good, how.by, how.place), mark, how)
        else:
            target.append(good, mark)

    def _bad(self, rows: DataFrame) -> Iterator[Letter]:
        columns = [F.unix_millis("timestamp").alias("timestamp_ms"), "partition", "offset", "key", "value", "headers"]
        for row in bad_rows(rows).select(*columns, "reason").toLocalIterator():
            yield self._letter(row)

    def _letter(self, row: Any) -> Letter:
        value = None if row["value"] is None else bytes(row["value"])
        return Letter(
            Origin(row["partition"], row["offset"]),
            row["timestamp_ms"],
            None if row["key"] is None else bytes(row["key"]),
            value,
            [(each["key"], None if each["value"] is None else bytes(each["value"])) for each in row["headers"] or ()],
            row["reason"] or explain_json(value, self._how.fields),
        )


class GroupOffsets:
    """Offsets of a group that show the progress of the table. Nothing depends on them, so a failure stops nothing."""

    def __init__(self, groups: Groups, group: str, topic: str) -> None:
        self._groups = groups
        self._group = group
        self._topic = topic
        self._told: Positions = {}
        self._warned = False

    def tell(self, reached: Positions) -> None:
        ahead = {partition: offset for partition, offset in reached.items() if self._told.get(partition) != offset}
        if not ahead:
            return
        try:
            offsets = {TopicPartition(self._topic, partition): offset for partition, offset in ahead.items()}
            self._groups.commit(self._group, offsets)
        except (Fenced, LakelogError) as error:
            if not self._warned:
                write_if_room(
                    sys.stderr, f"materialize: the offsets of {self._group} stay as they are: {one_sentence(error)}\n"
                )
            self._warned = True
        else:
            self._told = dict(reached)
