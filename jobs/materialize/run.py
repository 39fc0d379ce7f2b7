"""A run: prepares the table, then runs queries in sequence until there is no more to do.

A query starts from the mark in the table. One that was overtaken ends, and the next starts from the new mark. Spark
keeps a checkpoint for each query, but nothing depends on it.
"""

from __future__ import annotations

import json
import random
import sys
import time
import uuid
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from delta_log.model.errors import InvalidRequest, NotAvailable
from jobs.foundation.result import Unfinished
from jobs.foundation.tolerant_output import write_if_room
from jobs.groups.group_client import Groups
from jobs.materialize.batches import Batches, GroupOffsets
from jobs.materialize.commit_marks import Mark, Overtaken
from jobs.materialize.dead_letter_writer import DeadLetters
from jobs.materialize.discover import There, check_topic, look, refusing, show
from jobs.materialize.target import Stored, Target
from jobs.runner.stream_job import StreamRun
from jobs.source.positions import EARLIEST
from jobs.source.server import Server
from jobs.spark.stream_query import read_offsets, run_query, temporary_checkpoint

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["materialize"]

_PATIENCE_MS: Final = 120_000
#: Age at which a mark is stored again, long before the table's log drops it.
_OLD_MS: Final = 24 * 3_600_000
#: Limit of a batch, which is held in memory and on the disk of executors while it is processed.
_OFFSETS: Final = "1000000"
_MOST_OVERTAKEN: Final = 100
_PAUSE_S: Final = 0.5


def materialize(run: StreamRun) -> None:
    """Run until stopped, or with `--available-now` until everything present at the start is in the table."""
    with closing(Groups(run.url)) as groups, closing(Server(run.url, _PATIENCE_MS)) as server:
        there = look(run, server)
        if run.dry_run:
            run.say(show(run, there))
            ahead = sum(of.end - there.starts[number] for number, of in there.ranges.items())
            run.add(there.topic, {"batches": 0, "rows": ahead, "dead_letters": 0, "overtaken": 0})
        else:
            _Materializing(run, groups, server, there).run()


class _Materializing:
    def __init__(self, run: StreamRun, groups: Groups, server: Server, there: There) -> None:
        self._run = run
        self._options = run.options
        self._groups = groups
        self._server = server
        self._there = there
        self._target = Target(run.spark, run.options.table)
        self._name = uuid.uuid4().hex
        self._progress = 0

    def run(self) -> None:
        options, topic = self._options, self._there.topic
        with refusing(options.table):
            self._prepare()
            stored = self._claim(self._there.stored)
        offsets = GroupOffsets(self._groups, options.group, topic)
        in_vain = 0
        while True:
            before = self._progress
            try:
                offsets.tell(stored.mark.next)
                if self._query(stored.mark, offsets):
                    return
                stored = self._claim(self._target.load_mark(self._there.sink))
            except Overtaken as error:
                self._overtaken()
                in_vain = 0 if self._progress > before else in_vain + 1
                if self._run.stopping.is_set():
                    return
                if in_vain == _MOST_OVERTAKEN:
                    raise NotAvailable(f"other runs always store the next batch in {options.table} first") from error
                time.sleep(_PAUSE_S * random.random())  # noqa: S311 - jitter, so that two runs do not stay in step
                found = self._target.load_mark(self._there.sink)
                if found is None:
                    raise self._lost() from error
                stored = found

    def _prepare(self) -> None:
        shape = self._there.shape
        if shape.is_new:
            self._target.create(shape.table)
        elif shape.added:
            self._target.widen(shape.table)
        self._run.probe("materialize.shaped")

    def _claim(self, stored: Stored | None) -> Stored:
        """Return the mark to start from. The first one is stored as batch 1, which fails if there was a batch before.

        An old mark is stored again.
        """
        there, now_ms = self._there, int(time.time() * 1000)
        if stored is not None and now_ms - stored.at_ms <= _OLD_MS:
            return stored
        if stored is None:
            mark = Mark(there.sink, 1, self._name, there.starts, topic_id=there.topic_id)
        else:
            mark = stored.mark.following(self._name, {}, stored.mark.letters, rows=0, bad=0)
        try:
            self._target.store_nothing(mark)
        except Overtaken as error:
            found = self._target.load_mark(there.sink)
            if found is not None:
                return found
            if self._options.begin is None:
                raise self._lost() from error
            # The current time is above every number reached by counting batches.
            mark = replace(mark, batch=now_ms)
            self._target.store_nothing(mark)
        self._run.probe("materialize.claimed")
        return Stored(mark, now_ms)

    def _lost(self) -> InvalidRequest:
        return InvalidRequest(
            f"the table {self._options.table} has batches of {self._there.topic}, and its history does not say any "
            "more how far they came: say --begin, as 'table' for behind the highest offset of each partition in it"
        )

    def _query(self, mark: Mark, offsets: GroupOffsets) -> bool:
        """Run one query; returns whether there is no more to do: not if the mark is old, or partitions were added."""
        run, options, topic = self._run, self._options, self._there.topic
        if mark.topic_id is None:  # stored by a run that did not know it
            mark = replace(mark, topic_id=self._there.topic_id)
        letters = DeadLetters(
            self._groups,
            self._server,
            to=options.dead_letters,
            topic=topic,
            group=options.group,
            sink=f"materialize/{uuid.uuid5(uuid.NAMESPACE_URL, f'{mark.sink}/{options.group}').hex}",
        )
        how = self._there.shape.fitted(self._target.schema())
        batches = Batches(
            mark,
            how,
            letters,
            where=options.table,
            run=self._name,
            check=self._check_topic,
            tell=self._tell,
            probe=run.probe,
        )
        numbers = range(self._server.describe(topic).partitions)
        run.probe("materialize.described")

        def work(batch: DataFrame, batch_id: int) -> None:
            # If the topic is gone, the batch has no end offsets in it; the check of the topic detects that.
            (found,) = read_offsets(run.spark, checkpoint, batch_id)
            ends = found.get(topic, {})
            batches.work(batch, {int(number): offset for number, offset in ends.items()})
            offsets.tell(batches.mark.next)
            run.probe("materialize.committed")

        with temporary_checkpoint() as checkpoint:
            writer = run.triggered(self._frame(mark, numbers)).option("checkpointLocation", checkpoint)
            try:
                is_done = run_query(writer, work, stop=lambda: run.stopping.is_set() or self._is_old(batches))
            except Unfinished:
                # A query needs a start for every partition; if one was added since, the next query has it.
                if self._server.describe(topic).partitions == len(numbers):
                    raise
                return False
        return is_done or run.stopping.is_set()

    def _check_topic(self) -> None:
        """Check that all records read so far are of the followed topic: an id that is gone never comes back."""
        check_topic(self._there.topic, self._there.topic_id, self._server.describe(self._there.topic).id)

    def _is_old(self, batches: Batches) -> bool:
        return not self._options.available_now and (time.monotonic() - batches.marked_s) * 1000 > _OLD_MS

    def _frame(self, mark: Mark, numbers: range) -> DataFrame:
        topic, options = self._there.topic, self._options
        starts = {topic: {str(number): mark.next.get(number, EARLIEST) for number in numbers}}
        source: dict[str, str] = {
            **self._run.place,
            "maxOffsetsPerTrigger": _OFFSETS,
            **self._run.limits(),
            "subscribe": topic,
            "startingOffsets": json.dumps(starts),
            "includeHeaders": "true",
            "failOnDataLoss": str(not options.skip_lost).lower(),
            "group.id": options.group,
        }
        return self._run.spark.readStream.format("lakelog").options(**source).load()

    def _tell(self, rows: int, bad: int) -> None:
        self._progress += 1
        self._run.add(self._there.topic, {"batches": 1, "rows": rows, "dead_letters": bad, "overtaken": 0})
        counts = self._run.summary.topics[self._there.topic]
        self._run.progress.show(f"materialize: {counts['rows']} rows, {counts['dead_letters']} dead letters")

    def _overtaken(self) -> None:
        self._run.add(self._there.topic, {"batches": 0, "rows": 0, "dead_letters": 0, "overtaken": 1})
        self._run.progress.wipe()
        write_if_room(sys.stderr, "materialize: another run has stored the batch; this one goes on behind it\n")
