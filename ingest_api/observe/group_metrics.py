"""The metrics of groups: each sampled group, partition by partition, and the totals of all.

It uses samples taken of groups, and only reads end offsets from the log, so that a thread can run it.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from consumer_groups.coordinator.metrics import GroupSample, GroupStatistics
from consumer_groups.decisions.lag import measure_progress
from consumer_groups.model.assignment import TopicPartition
from consumer_groups.model.cluster import Offsets
from delta_log.model.types import PartitionOffsets
from ingest_api.observe import metric_names as names
from ingest_api.observe.exposition import Sheet, label_text

#: Groups that have series of their own, the first by name, and the partitions of all of them together.
MOST_GROUPS: Final = 1000
MOST_PARTITIONS: Final = 10_000


class OffsetsInUse:
    """Offsets of the topics that are in memory: reading others would wait for the disk."""

    def __init__(self, offsets: Offsets, topics: Collection[str]) -> None:
        self._offsets = offsets
        self._topics = topics

    def get(self, key: TopicPartition, /) -> PartitionOffsets | None:
        return self._offsets.get(key) if key.topic in self._topics else None


def fill_groups(sheet: Sheet, statistics: GroupStatistics, offsets: Offsets) -> None:
    measured = 0
    for sample in statistics.samples:
        fill_group(sheet, sample, offsets)
        measured += sample.progress is not None
    sheet.put(names.GROUPS, statistics.groups)
    sheet.put(names.GROUPS_NOT_MEASURED, statistics.groups - measured)
    sheet.put(names.GROUP_COMMITS, statistics.commits)
    sheet.put(names.GROUP_REBALANCES, statistics.rebalances)
    sheet.put(names.GROUP_GIVEN_UP, statistics.given_up)
    sheet.put_distribution(names.GROUP_COMMIT_SECONDS, statistics.commit_seconds)


def fill_group(sheet: Sheet, sample: GroupSample, offsets: Offsets) -> None:
    summary = sample.summary
    labels = label_text({"group": summary.group})
    sheet.put_labelled(names.GROUP_MEMBERS, labels, summary.members)
    sheet.put_labelled(names.GROUP_GENERATION, labels, summary.generation)
    sheet.put(names.GROUP_STATE, 1, group=summary.group, state=summary.state)
    if sample.progress is None:
        return
    for each in measure_progress(sample.progress, offsets):
        if each.lag is not None:
            topic, partition = each.partition
            sheet.put(names.GROUP_LAG, each.lag, group=summary.group, topic=topic, partition=str(partition))
