"""Streaming queries: positions in, positions out. Their only durable state is the query's checkpoint.

If a new query begins at latest, its first batch is empty: Spark stores only ends of batches, and a query killed before
its first end would otherwise begin at a later latest, and skip records. So the first start is UNRESOLVED, the first end
is latest at that time, and from then on positions come from the checkpoint.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from jobs.source.batch import resolve_now
from jobs.source.errors import InvalidOption
from jobs.source.options import ReadOptions
from jobs.source.planning import (
    is_said,
    is_settled,
    is_too_little,
    plan_ends,
    plan_spans,
    resolve,
    times_wanted,
)
from jobs.source.positions import Positions, Range, TopicPartition, from_json, to_json
from jobs.source.readers import SliceReading, Task
from jobs.source.slices import warn_of

#: Start of a new query at latest; no topic has an empty name. It is never an end, so no checkpoint has it.
UNRESOLVED: Final[dict[str, Any]] = {"": {}}
#: Minimum interval of requests to a server, as Spark asks again at once if nothing is new.
_LOOK_EVERY_S: Final = 0.05

Ranges = dict[TopicPartition, Range]


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    def __init__(self, options: ReadOptions, schema: StructType) -> None:
        self._options = options
        self._reading = SliceReading(options, schema)
        #: end offsets of partitions when last read
        self._seen: Positions = {}
        self._target: Ranges | None = None
        #: start of a new query, as of now, and the reason why it cannot begin
        self._initial: dict[str, Any] | None = None
        self._refused: InvalidOption | None = None
        self._looked = 0.0
        self._batch_since = time.monotonic()

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        if not is_settled(self._options.start, self._options.late_start):
            return UNRESOLVED
        try:
            positions = self._begin()
        except InvalidOption as refused:
            # Spark also asks when a first batch is run again: then partitions that were added since do not matter.
            self._refused, positions = refused, self._begin(as_far_as_said=True)
        self._initial = to_json(positions)
        return self._initial

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's name
        most = self._options.most_of_a_batch
        return ReadAllAvailable() if most is None else ReadMaxRows(most)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        self._target = self._ranges(self._reading.ground.partitions())
        self._seen = {each: there.end for each, there in self._target.items()}

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """Return the end of the next batch; `start` itself if there is none."""
        if start == UNRESOLVED:
            return to_json(self._begin())
        if self._refused is not None and start == self._initial:
            raise self._refused
        starts = from_json(start)
        there = self._look(starts) if self._target is None else self._target
        options = self._options
        least = options.least_of_a_batch if self._target is None else None
        waited_ms = int((time.monotonic() - self._batch_since) * 1000)
        if is_too_little(starts, there, least, waited_ms, options.longest_delay_ms):
            return start
        most = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        ends = plan_ends(starts, there, most)
        if ends == starts:
            return start
        if most is not None and self._target is None:
            # Offsets removed by retention since do not count towards the limit.
            ends = plan_ends(starts, self._reading.ground.ranges(there), most)
        self._batch_since = time.monotonic()
        return to_json(ends)

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802 - Spark's name
        return to_json(self._seen) if self._seen else None

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[Task]:
        if start == UNRESOLVED:
            return []
        starts, ends = from_json(start), from_json(end)
        ground = self._reading.ground
        known = set(ground.partitions())
        if start == self._initial:
            # The batch may have been planned by an earlier process, before some of the present partitions existed.
            starts = {each: at for each, at in starts.items() if each in ends or each not in known}
        read = {each for each in known & ends.keys() if starts.get(each) != ends[each]}
        at_rest = {each: Range(starts[each], starts[each]) for each in known & starts.keys() - read}
        there = at_rest | ground.ranges(sorted(read))
        spans, losses = plan_spans(starts, ends, there)
        warn_of(losses, fail=self._options.fail_on_data_loss)
        return self._reading.tasks(spans)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return self._reading.read_task(partition)

    def stop(self) -> None:
        self._reading.close()

    def _begin(self, *, as_far_as_said: bool = False) -> Positions:
        """Return the start of a new query, as of now; InvalidOption if the options do not cover every partition."""
        options = self._options
        ranges = self._target or self._ranges(self._reading.ground.partitions())
        if not as_far_as_said:
            return resolve_now(self._reading, options.start, ranges, "startingOffsets", options.late_start)
        named = {each: there for each, there in ranges.items() if is_said(options.start, each)}
        return resolve(options.start, named, self._reading.ground.at_times(times_wanted(options.start, named)))

    def _look(self, starts: Positions) -> Ranges:
        """Return the current ranges; starts are read only for new partitions, and for those whose end went back."""
        pause = self._looked + _LOOK_EVERY_S - time.monotonic()
        if pause > 0:
            time.sleep(pause)
        ground = self._reading.ground
        partitions = ground.partitions()
        ends = ground.ends(partitions)
        new = [each for each in partitions if each in ends and ends[each] < starts.get(each, ends[each] + 1)]
        found = ground.ranges(new)
        self._seen, self._looked = ends, time.monotonic()
        as_before = {
            each: Range(starts[each], end) for each, end in ends.items() if each in starts and each not in found
        }
        return as_before | found

    def _ranges(self, partitions: list[TopicPartition]) -> Ranges:
        return self._reading.ground.ranges(partitions)
