"""Progress and lag of a group, by partition.

    committed            lag = end offset less committed offset, as in Kafka, even where records in between are gone
    nothing committed    lag is what the owner will read: from where its reset policy began, or would begin now
                         (earliest: everything, latest: nothing); None for other policies, or without a reader

`take_progress` copies the state of a group, at the price of a few dict copies, so that a thread can do the rest while
the group goes on. It must not know how offsets of a log are obtained. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from consumer_groups.model.assignment import TopicPartition, in_order
from consumer_groups.model.cluster import Offsets
from consumer_groups.model.records import OffsetRecord
from consumer_groups.model.reset_policy import EARLIEST, LATEST
from consumer_groups.state.state import Group
from delta_log.model.types import PartitionOffsets


@dataclass(frozen=True, slots=True)
class Progress:
    """Snapshot of one group. `begun`: where reset policies began; `subscribed`: number of partitions by topic.

    `meant`: target owners; `manual`: partitions that members assigned to themselves; `policies`: reset policies.
    """

    committed: tuple[OffsetRecord, ...]
    begun: Mapping[TopicPartition, int]
    subscribed: Mapping[str, int]
    owners: Mapping[TopicPartition, str]
    meant: Mapping[TopicPartition, str]
    manual: tuple[tuple[TopicPartition, str], ...]
    policies: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class PartitionProgress:
    """Progress in one partition. `offsets` is None if the log is unavailable, `lag` if it is unknown."""

    partition: TopicPartition
    committed: OffsetRecord | None
    owner: str | None
    offsets: PartitionOffsets | None
    lag: int | None


def count_partitions(group: Group) -> int:
    """Upper bound of the partitions in the progress of a group: its cost."""
    reads = sum(topic.partitions for topic in group.topics.values())
    return (
        reads + sum(map(len, group.offsets.values())) + sum(len(each.manual or ()) for each in group.members.values())
    )


def take_progress(group: Group) -> Progress:
    return Progress(
        committed=tuple(record for its in group.offsets.values() for record in its.values()),
        begun={
            TopicPartition(position.topic, position.partition): position.resolved
            for position in group.positions.values()
            if position.resolved is not None
        },
        subscribed={name: topic.partitions for name, topic in group.topics.items()},
        owners=dict(group.owners),
        meant=dict(group.wanted),
        manual=tuple(
            (TopicPartition(*each), member_id)
            for member_id, member in group.members.items()
            for each in member.manual or ()
        ),
        policies={member_id: member.options.auto_offset_reset for member_id, member in group.members.items()},
    )


def measure_progress(progress: Progress, offsets: Offsets) -> list[PartitionProgress]:
    """Progress in every partition that the group reads or has read, in order."""
    committed = {TopicPartition(each.topic, each.partition): each for each in progress.committed}
    owners = {**dict(progress.manual), **progress.owners}
    readers = {**progress.meant, **owners}
    found: list[PartitionProgress] = []
    for partition in in_order({*committed, *readers, *_subscribed(progress)}):
        known, record = offsets.get(partition), committed.get(partition)
        since: int | None = None
        if record is not None:
            since = record.next_offset
        elif known is not None and (reader := readers.get(partition)) is not None:
            since = progress.begun.get(partition, _begin(progress.policies.get(reader), known))
        lag = None if since is None or known is None else max(0, known.end_offset - since)
        found.append(PartitionProgress(partition, record, owners.get(partition), known, lag))
    return found


def total_lag(partitions: Iterable[PartitionProgress]) -> int:
    """Sum of the known lags."""
    return sum(each.lag or 0 for each in partitions)


def _subscribed(progress: Progress) -> Iterable[TopicPartition]:
    return (TopicPartition(name, each) for name, count in progress.subscribed.items() for each in range(count))


def _begin(policy: str | None, offsets: PartitionOffsets) -> int | None:
    return {EARLIEST: offsets.log_start_offset, LATEST: offsets.end_offset}.get(policy or "")
