"""Key compaction (cleanup.policy=compact): keeps the newest record of each key, at its own offset.

    map      = the newest offset of each key among the dirty files: from the first offset that no pass has
               seen, up to the horizon
    survives = key is null
               or (offset >= map[key], or the key is not in the map)
                  and (value is not null, or offset >= tombstones_below)

All live files below the horizon are compared with the map, in offset order, and survivors keep their offsets.
Above the horizon nothing is read or changed, so a newer record there does not yet replace an older one below:
as in Kafka. Unlike Kafka, which drops records without a key, lakelog keeps them: a compacted topic accepts
none, so they are from before its policy changed, and nothing has replaced them.

In SQL, with r a row of any file of the plan, and dirty its map (key, max(offset) AS latest; no null keys):

    FROM r LEFT JOIN dirty ON r.key = dirty.key
    WHERE r.key IS NULL
       OR (coalesce(r.offset >= latest, true) AND (r.value IS NOT NULL OR r.offset >= :tombstones_below))

A tombstone (a key with a null value) must outlast every reader that saw the value it deletes: a reader of the old
value just before the first pass over it has delete.retention.ms from then to reach the tombstone.
Timestamps do not tell when that pass was; a TombstoneMark does. A removed tombstone has no older record of
its key below it: an earlier pass removed those, which is why a pass must be one commit.

A pass decides which offsets leave. An offset identifies a record for ever, so the decision stays valid even if
files are folded, compacted or removed before it is carried out; only another pass makes it void.
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

#: One row per record with a key: `dirty`, and `fading`, a tombstone that may be removed.
ENTRIES: Final = pa.schema(
    [("key", pa.binary()), ("offset", pa.int64()), ("dirty", pa.bool_()), ("fading", pa.bool_())]
)
Flags = npt.NDArray[np.bool_]
#: The inputs of one file are at most so many times as large as the file may become.
_MOST_INPUT: Final = 8


@dataclass(frozen=True, slots=True)
class TombstoneMark:
    """The commit of a pass at `since_ms`, after which no offset below `offset` was dirty.

    One mark per partition is enough: it stays until delete.retention.ms have passed; the next pass then
    drops the tombstones below it and sets a new mark. So a tombstone never goes too early, and at the latest
    in the first pass after two periods.
    """

    offset: int
    since_ms: int


@dataclass(frozen=True, slots=True)
class KeyCompactionLimits:
    """The topic's settings; a maximum lag of None means no maximum."""

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
    """A planned pass: map the `dirty` files, compare `clean` and `dirty` ones with the map, write the survivors.

    `horizon` is the first unchanged offset, and the first dirty one once the pass is committed.
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
        """The mark to store in the commit of the pass."""
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
    - A `dirty_from` or a mark beyond the end is from a deleted topic of the same name: everything is dirty.
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
    """The offsets of the entries that do not survive, in rising order.

    `entries` has, in any order, all records of the plan for each of its keys: a key is complete or absent.
    """
    fading = entries.column("fading").to_numpy()
    return np.sort(entries.column("offset").to_numpy()[find_replaced(entries) | fading])


def find_replaced(entries: pa.Table) -> Flags:
    """Mark the entries that a later dirty entry replaces.

    They leave whatever entries are elsewhere; the entry that replaces one may itself be replaced.
    """
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
    """Group the files to rewrite. `leaving` has the number of records that leave each file.

    A file that loses nothing stays as it is, and no group reaches across it. Neighbours are grouped while their
    remaining rows are likely to fit into segment_bytes and span no more time than one file may.
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
