"""The API of key compaction: passes over the partitions of a topic, beside the process that owns the root.

    plan  →  sift: which offsets leave  →  rewrite the files that have such offsets  →  one commit

The commit adds the new files, removes the old ones and moves the marks, so that a pass is atomic. If files were folded
meanwhile, the decision stays valid: only those files are rewritten again.
"""

from __future__ import annotations

import uuid
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

from delta_log.delta.actions import Txn
from delta_log.delta.conflicts import TOPIC_ID
from delta_log.delta.file_commits import replace_files
from delta_log.delta.snapshot import Snapshot, clean_txn, files_below, tombstones_txns
from delta_log.maintenance.compaction.by_key import (
    KeyCompactionLimits,
    KeyCompactionPlan,
    TombstoneMark,
    plan_key_compaction,
    plan_rewrites,
)
from delta_log.maintenance.compaction.remote_failure import RemoteFailure
from delta_log.maintenance.compaction.superseded import BUCKET_ENTRIES, SiftOrder, Verdict
from delta_log.maintenance.compaction.survivors import SurvivorsAnswer, SurvivorsOrder
from delta_log.model.errors import Corruption, LakelogError, PlanOutdated, TopicClosed
from delta_log.model.offset_sets import OffsetSet
from delta_log.model.topic_config import TopicConfig
from delta_log.model.types import DataFile
from delta_log.topics.job_context import TopicJobContext

#: Size of one sift order: large enough to be worth the overhead, small enough that all workers get some.
_ORDER_BYTES: Final = 32 * 1024 * 1024
_ORDER_FILES: Final = 1000


@dataclass(frozen=True, slots=True)
class Marks:
    """The progress of a partition's passes, as its table stores it."""

    dirty_from: int
    tombstones: TombstoneMark | None

    @classmethod
    def of(cls, snapshot: Snapshot, partition: int) -> Marks:
        below, since = (snapshot.txns.get(name, 0) for name in tombstones_txns(partition))
        return cls(snapshot.clean(partition), TombstoneMark(below, since) if since else None)

    def txns(self, partition: int) -> list[Txn]:
        noted = [Txn(clean_txn(partition), self.dirty_from)]
        if self.tombstones is not None:
            below, since = tombstones_txns(partition)
            noted += [Txn(below, self.tombstones.offset), Txn(since, self.tombstones.since_ms)]
        return noted


@dataclass(frozen=True, slots=True)
class Passed:
    """The result of a pass."""

    version: int
    old: tuple[DataFile, ...]
    fresh: tuple[DataFile, ...]


@dataclass(slots=True)
class _Group:
    """Files that are rewritten together; `answer` is set once they are."""

    inputs: tuple[DataFile, ...]
    answer: SurvivorsAnswer | None = None


@dataclass(slots=True, eq=False)
class Pass:
    """A pass over one partition, under way. For one thread."""

    ground: TopicJobContext
    plan: KeyCompactionPlan
    before: Marks
    config: TopicConfig
    leaving: OffsetSet = field(default_factory=OffsetSet)
    _groups: dict[str, _Group] = field(default_factory=dict[str, _Group])

    def sift(self, verdict: Verdict) -> None:
        for trouble in verdict.troubles:
            raise self._explain(trouble)
        self.leaving.add(verdict.offsets())

    def orders(self) -> list[SurvivorsOrder]:
        """Orders for the newest table; rewrites of files that have left it since are deleted.

        PlanOutdated if this pass can no longer be committed.
        """
        snapshot = self.ground.follow()
        self._check_marks(snapshot)
        for name, group in list(self._groups.items()):
            if group.answer is None or not all(snapshot.has_file(file.path) for file in group.inputs):
                self._drop(name)
        fresh = {uuid.uuid4().hex: _Group(inputs) for inputs in self._plan_groups(snapshot)}
        self._groups |= fresh
        return [self._order(name, group.inputs) for name, group in fresh.items()]

    def take(self, answer: SurvivorsAnswer) -> None:
        """Take an answer. Corruption if a file of the newest table is missing or damaged; PlanOutdated if it left."""
        group = self._groups.get(answer.name)
        if group is None:
            self.ground.delete(answer.files)
        elif answer.trouble is not None:
            raise self._explain(answer.trouble)
        else:
            group.answer = answer

    @property
    def is_written(self) -> bool:
        """True once every order was carried out."""
        return all(group.answer is not None for group in self._groups.values())

    def commit(self) -> Passed:
        """Commit the pass. PlanOutdated if a file left the table meanwhile: then `orders` has new ones to do."""
        ground, plan = self.ground, self.plan
        answers = [group.answer for group in self._groups.values() if group.answer is not None]
        old = tuple(file for group in self._groups.values() for file in group.inputs)
        fresh = tuple(file for answer in answers for file in answer.files)
        for answer in answers:
            ground.check_young(answer.files, answer.begun_ms)
        snapshot = ground.follow()
        if not self.is_written or not all(snapshot.has_file(file.path) for file in old):
            raise PlanOutdated(ground.live.name, "somebody else wrote files of it anew")

        def note(snapshot: Snapshot) -> list[Txn]:
            self._check_marks(snapshot)
            now_ms = max(ground.clock_ms(), ground.table.store.now_ms())
            return Marks(plan.horizon, plan.mark_after(now_ms)).txns(plan.partition)

        self._groups.clear()  # from here on the commit names the files, or deletes them
        version = replace_files(ground.table, ground.live.id, old, fresh, ground.clock_ms, data_change=True, also=note)
        ground.at("key_compaction.committed")
        return Passed(version, old, fresh)

    def give_up(self) -> None:
        """Delete the files that were written; a file that cannot be deleted is swept later."""
        for name in list(self._groups):
            with suppress(LakelogError):
                self._drop(name)

    def _check_marks(self, snapshot: Snapshot) -> None:
        if snapshot.configuration.get(TOPIC_ID) != self.ground.live.id:
            raise PlanOutdated(self.ground.live.name, "the topic was deleted or created anew")
        if Marks.of(snapshot, self.plan.partition) != self.before:
            raise PlanOutdated(self.ground.live.name, f"partition {self.plan.partition} was compacted by somebody else")
        if _keeps_more(self.config.renewed(snapshot.configuration), self.config):
            raise PlanOutdated(self.ground.live.name, "its settings were changed, and are to keep more")

    def _plan_groups(self, snapshot: Snapshot) -> list[tuple[DataFile, ...]]:
        """Group the files that lose records and are not rewritten yet."""
        config = self.ground.config
        files = files_below(snapshot.files(self.plan.partition), self.plan.horizon)
        written = {file.path for group in self._groups.values() for file in group.inputs}
        leaving = [0 if file.path in written else self._count_leaving(file) for file in files]
        return plan_rewrites(
            files,
            leaving,
            segment_bytes=config.segment_bytes,
            segment_ms=config.segment_ms,
            retention_ms=config.retention_ms if config.deletes else None,
        )

    def _count_leaving(self, file: DataFile) -> int:
        return len(self.leaving.between(file.base_offset, file.next_offset))

    def _order(self, name: str, inputs: tuple[DataFile, ...]) -> SurvivorsOrder:
        config, table = self.ground.config, self.ground.table
        leaving = self.leaving.part(inputs[0].base_offset, inputs[-1].next_offset)
        return SurvivorsOrder(
            self.ground.location, table.directory, inputs, leaving, name, config.parquet_codec, config.segment_bytes
        )

    def _drop(self, name: str) -> None:
        group = self._groups.pop(name)
        if group.answer is not None:
            self.ground.delete(group.answer.files)

    def _explain(self, trouble: RemoteFailure) -> LakelogError:
        """Translate a worker's failure: a missing file has either left the table or is lost."""
        name = self.ground.live.name
        if trouble.what == "failed":
            return TopicClosed(name, trouble.why)
        relative = trouble.path.removeprefix(f"{self.ground.table.directory}/")
        if trouble.what == "damaged" or self.ground.follow().has_file(relative):
            return Corruption(trouble.path, trouble.why)
        return PlanOutdated(name, f"{relative} has left the table")


def _keeps_more(now: TopicConfig, before: TopicConfig) -> bool:
    """True if a pass planned by `before` might remove records that a pass planned by `now` would keep."""
    return (
        not now.compacts
        or now.min_compaction_lag_ms > before.min_compaction_lag_ms
        or now.delete_retention_ms > before.delete_retention_ms
    )


def plan_passes(ground: TopicJobContext, now_ms: int) -> list[Pass]:
    """Plan a pass for each partition that is worth one; none if the topic does not compact."""
    config, snapshot = ground.config, ground.table.snapshot
    if not config.compacts:
        return []
    passes: list[Pass] = []
    for index in range(ground.live.partitions):
        marks = Marks.of(snapshot, index)
        plan = plan_key_compaction(
            snapshot.files(index),
            log_start=snapshot.start(index),
            end=snapshot.end(index),
            dirty_from=marks.dirty_from,
            mark=marks.tombstones,
            limits=KeyCompactionLimits.of(config),
            now_ms=now_ms,
        )
        if plan is not None:
            passes.append(Pass(ground, plan, marks, config))
    return passes


class Sifting:
    """Assigns the entries of passes to buckets: each pass has a contiguous range of them.

    `workers` is the number of concurrent workers; each should get a bucket.
    """

    def __init__(self, ground: TopicJobContext, passes: Sequence[Pass], workers: int = 1) -> None:
        self._ground = ground
        self._passes = passes
        self._firsts = [0]
        for each in passes:
            entries = sum(file.count for file in each.plan.inputs)
            buckets = max(-(-workers // len(passes)), -(-entries // BUCKET_ENTRIES))
            self._firsts.append(self._firsts[-1] + buckets)

    @property
    def buckets(self) -> int:
        return self._firsts[-1]

    def orders(self) -> Iterator[SiftOrder]:
        """Sift orders of a few files each."""
        for index, each in enumerate(self._passes):
            taken: list[DataFile] = []
            for file in each.plan.inputs:
                taken.append(file)
                if len(taken) == _ORDER_FILES or sum(other.size for other in taken) >= _ORDER_BYTES:
                    yield self._order(index, taken)
                    taken = []
            if taken:
                yield self._order(index, taken)

    def _order(self, index: int, files: Sequence[DataFile]) -> SiftOrder:
        plan, first = self._passes[index].plan, self._firsts[index]
        return SiftOrder(
            self._ground.location,
            self._ground.table.directory,
            tuple(files),
            plan.dirty[0].base_offset,
            plan.tombstones_below,
            first,
            self._firsts[index + 1] - first,
        )

    def pass_of(self, bucket: int) -> Pass:
        return self._passes[bisect_right(self._firsts, bucket) - 1]
