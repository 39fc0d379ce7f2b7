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

What a pass decides is which offsets leave. An offset names a record for ever, so that stays right whatever
files are folded, compacted or removed before it is carried out; another pass alone makes it void.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from delta_log.maintenance.retention import check_in_order, newest_commits
from delta_log.model.offset_sets import Numbers
from delta_log.model.topic_config import TopicConfig
from delta_log.model.types import DataFile

#: Of a key among many records: whether its record is dirty, and whether it is a tombstone that may go.
ENTRIES: Final = pa.schema(
    [("key", pa.binary()), ("offset", pa.int64()), ("dirty", pa.bool_()), ("fading", pa.bool_())]
)
Flags = npt.NDArray[np.bool_]
#: What one file is made of is at most so many times what it may become.
_MOST_INPUT: Final = 8


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

    @classmethod
    def of(cls, config: TopicConfig) -> KeyCompactionLimits:
        return cls(
            config.min_compaction_lag_ms,
            config.max_compaction_lag_ms,
            config.min_cleanable_dirty_ratio,
            config.delete_retention_ms,
            config.segment_ms,
        )


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


def leaving_offsets(entries: pa.Table) -> Numbers:
    """The offsets of those that do not survive, in rising order.

    `entries` are of all records of the plan that have one of these keys, in any order: of a key all or none.
    """
    fading = entries.column("fading").to_numpy()
    return np.sort(entries.column("offset").to_numpy()[find_replaced(entries) | fading])


def find_replaced(entries: pa.Table) -> Flags:
    """Which of them leave by a later dirty one among them, and so whatever else there is: that one may leave, too."""
    dirty, offsets = (entries.column(name).to_numpy() for name in ("dirty", "offset"))
    if not dirty.any():
        return np.zeros(len(offsets), np.bool_)
    keys = entries.column("key").combine_chunks().dictionary_encode()
    codes = keys.indices.to_numpy()
    latest = np.full(len(keys.dictionary), -1, np.int64)
    np.maximum.at(latest, codes[dirty], offsets[dirty])
    return offsets < latest[codes]


def plan_rewrites(
    files: Sequence[DataFile],
    leaving: Sequence[int],
    *,
    segment_bytes: int,
    segment_ms: int,
    retention_ms: int | None,
) -> list[tuple[DataFile, ...]]:
    """Which files, each with how many of its records leave, are written anew, and which of them together.

    One that nothing leaves stays as it is, and nothing is written across it. Neighbours go together as far as what
    is left of them is likely to fit into segment_bytes and spans no more than a file may.
    """
    span_ms = segment_ms if retention_ms is None else min(segment_ms, retention_ms // 2)
    commits = newest_commits(files, segment_ms=segment_ms)
    groups: list[list[DataFile]] = []
    left = size = began = newest = 0
    before = False
    for file, gone, committed in zip(files, leaving, commits, strict=True):
        if gone:
            stays, latest = file.size * (file.count - gone) // file.count, min(file.max_timestamp_ms, committed)
            oldest = min(file.min_timestamp_ms, file.modified_ms, latest)
            full = left + stays > segment_bytes or size + file.size > _MOST_INPUT * segment_bytes
            if not before or full or max(newest, latest) - min(began, oldest) > span_ms:
                groups.append([])
                left, size, began, newest = 0, 0, oldest, latest
            groups[-1].append(file)
            left, size, began, newest = left + stays, size + file.size, min(began, oldest), max(newest, latest)
        before = gone > 0
    return [tuple(group) for group in groups]


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
