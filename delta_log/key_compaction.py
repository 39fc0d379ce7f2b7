"""What cleanup.policy=compact keeps: the newest record of each key, at its own offset.

    map      = the newest offset of each key among the dirty files: from the first offset that no pass has
               seen, up to the horizon
    survives = key is null
               or (offset >= map[key], or the key is not in the map)
                  and (value is not null, or offset >= tombstones_below)

All live files below the horizon are held against the map, in offset order, and survivors keep their offsets.
Above the horizon nothing is read or touched, so a newer record there does not yet shadow an older one below:
as in Kafka. Unlike Kafka, which throws records without a key away, we keep them: a compacted topic takes
none, so they are from before its policy changed, and nothing has replaced them.

In SQL, with r a row of any file of the plan, and dirty its map (key, max(offset) AS latest; no null keys):

    FROM r LEFT JOIN dirty ON r.key = dirty.key
    WHERE r.key IS NULL
       OR (coalesce(r.offset >= latest, true) AND (r.value IS NOT NULL OR r.offset >= :tombstones_below))

A tombstone (a key with a null value) must outlast every reader that saw what it deletes: who reads the old
value just before the first pass over it has delete.retention.ms from then to come upon the tombstone.
Timestamps do not tell when that pass was; a TombstoneMark does. A tombstone that goes has no older record of
its key below it: an earlier pass took those, which is why a pass must be one commit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from delta_log.retention import check_in_order, newest_commits
from delta_log.schema import integer
from delta_log.types import DataFile


@dataclass(frozen=True, slots=True)
class TombstoneMark:
    """At `since_ms` a pass was committed, and no offset below `offset` was dirty any more.

    One mark a partition is enough: it stands still until delete.retention.ms have passed; the next pass then
    drops the tombstones below it and sets it anew. So a tombstone never goes too early, and goes at the
    latest with the first pass after two periods.
    """

    offset: int
    since_ms: int


@dataclass(frozen=True, slots=True)
class KeyCompactionLimits:
    """The topic's settings; None as the maximum lag is no maximum."""

    min_compaction_lag_ms: int
    max_compaction_lag_ms: int | None
    min_dirty_ratio: float
    delete_retention_ms: int
    segment_ms: int


@dataclass(frozen=True, slots=True)
class KeyCompactionPlan:
    """One pass: map the `dirty` files, hold `clean` and `dirty` ones against it, write the survivors.

    `horizon` is the first offset that is not touched, and the first dirty one once the pass is committed.
    """

    partition: int
    clean: tuple[DataFile, ...]
    dirty: tuple[DataFile, ...]
    horizon: int
    tombstones_below: int
    mark: TombstoneMark | None
    why: str

    @property
    def inputs(self) -> tuple[DataFile, ...]:
        return self.clean + self.dirty

    def mark_after(self, committed_ms: int) -> TombstoneMark:
        """What to store with the pass, in the same commit."""
        return self.mark or TombstoneMark(self.horizon, committed_ms)

    def __str__(self) -> str:
        size = sum(file.size for file in self.inputs)
        head = (
            f"partition {self.partition}: compact by key below offset {self.horizon} ({self.why}), "
            f"{len(self.inputs)} files, {size} bytes; drop tombstones below offset {self.tombstones_below}"
        )
        lines = [f"  clean {file.path} ({file.size} bytes)" for file in self.clean]
        lines += [f"  dirty {file.path} ({file.size} bytes)" for file in self.dirty]
        return "\n".join([head, *lines])


def plan_key_compaction(
    files: Sequence[DataFile],
    *,
    log_start: int,
    end: int,
    dirty_from: int,
    mark: TombstoneMark | None,
    limits: KeyCompactionLimits,
    now_ms: int,
) -> KeyCompactionPlan | None:
    """The next pass over one partition's files, given in offset order; None when it is not worth it.

    - The horizon is the first file with content committed less than min.compaction.lag.ms ago, or the end.
    - A pass is worth it when more than min.cleanable.dirty.ratio of the bytes below the horizon is dirty, or
      some of it was committed more than max.compaction.lag.ms ago (never less than the minimum).
    - A file is dirty when any of its offsets is: a fold may have joined clean and dirty records.
    - A `dirty_from` or a mark beyond the end is of another life of the topic: everything is dirty.
    """
    check_in_order(files)
    if dirty_from > end or (mark is not None and mark.offset > end):
        dirty_from, mark = log_start, None
    cleanable, horizon = _below_horizon(files, log_start=log_start, end=end, limits=limits, now_ms=now_ms)
    clean = tuple(file for file in cleanable if file.last_offset < dirty_from)
    dirty = tuple(cleanable[len(clean) :])
    why = _why(cleanable, dirty, limits=limits, now_ms=now_ms)
    if why is None:
        return None
    spent = mark is not None and now_ms - mark.since_ms > limits.delete_retention_ms
    return KeyCompactionPlan(
        partition=files[0].partition,
        clean=clean,
        dirty=dirty,
        horizon=horizon,
        tombstones_below=min(mark.offset, dirty_from) if mark is not None and spent else 0,
        mark=None if spent else mark,
        why=why,
    )


def latest_offsets(records: pa.Table) -> pa.Table:
    """The map: columns `key` and `offset`, each key once.

    The map of several parts is the map of their maps, put one behind another.
    """
    keyed = records.select(["key", "offset"]).filter(pc.field("key").is_valid())
    latest = keyed.group_by("key").aggregate([("offset", "max")])
    return latest.select(["key", "offset_max"]).rename_columns(["key", "offset"])


def surviving(records: pa.Table, *, latest: pa.Table, tombstones_below: int) -> pa.ChunkedArray:
    """Which records stay, one boolean each and never null; `records.filter` with it is what the pass writes.

    `records` are any of the plan's, and `latest` is the whole map; the work is proportional to both together.
    """
    keys = records.column("key").cast(pa.large_binary())
    mapped = latest.column("key").cast(pa.large_binary()).combine_chunks()
    place = pc.index_in(keys, options=pc.SetLookupOptions(value_set=mapped, skip_nulls=True))
    offset = records.column("offset")
    newest = pc.fill_null(pc.greater_equal(offset, latest.column("offset").take(place)), fill_value=True)
    lasting = pc.or_(pc.is_valid(records.column("value")), pc.greater_equal(offset, integer(tombstones_below)))
    return pc.or_(pc.is_null(keys), pc.and_(newest, lasting))


def _below_horizon(
    files: Sequence[DataFile], *, log_start: int, end: int, limits: KeyCompactionLimits, now_ms: int
) -> tuple[list[DataFile], int]:
    cleanable: list[DataFile] = []
    commits = newest_commits(files, segment_ms=limits.segment_ms)
    for file, committed in zip(files, commits, strict=True):
        if file.last_offset < log_start:
            continue
        if file.next_offset > end or max(0, now_ms - committed) < limits.min_compaction_lag_ms:
            return cleanable, file.base_offset
        cleanable.append(file)
    return cleanable, end


def _why(
    cleanable: Sequence[DataFile], dirty: Sequence[DataFile], *, limits: KeyCompactionLimits, now_ms: int
) -> str | None:
    if not dirty:
        return None
    age, longest = now_ms - min(file.modified_ms for file in dirty), limits.max_compaction_lag_ms
    if longest is not None and age > max(longest, limits.min_compaction_lag_ms):
        return f"dirty for {age} ms"
    ratio = sum(file.size for file in dirty) / sum(file.size for file in cleanable)
    return f"{ratio:.0%} dirty" if ratio > limits.min_dirty_ratio else None
