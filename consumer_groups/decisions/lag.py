"""How far a group is, partition by partition, and how far behind.

    committed            the lag is what lies between that and the end, as Kafka has it, also where some of it is gone
    nothing committed    it is what the owner will read: from where its reset policy began, or would begin now
                         (earliest: all there is, latest: nothing); None where only time will tell, or nobody reads

`take_progress` copies what a group knows, at the price of a few copies of dicts, so that a thread can do the rest while
the group goes on. It must not know how a log is asked. Pure.
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
    """Of one group at one moment. `begun` is where reset policies began, `subscribed` how many partitions topics have.

    `meant` is who is to own what, `manual` what members read by themselves, `policies` how each member begins.
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
    """`offsets` is None where the log cannot be asked, `lag` where it is not known."""

    partition: TopicPartition
    committed: OffsetRecord | None
    owner: str | None
    offsets: PartitionOffsets | None
    lag: int | None


def count_partitions(group: Group) -> int:
    """How many the progress of a group is about, or more: what it would cost."""
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
    """Every partition that the group reads or has read, in their order."""
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
    """Of what is known."""
    return sum(each.lag or 0 for each in partitions)


def _subscribed(progress: Progress) -> Iterable[TopicPartition]:
    return (TopicPartition(name, each) for name, count in progress.subscribed.items() for each in range(count))


def _begin(policy: str | None, offsets: PartitionOffsets) -> int | None:
    return {EARLIEST: offsets.log_start_offset, LATEST: offsets.end_offset}.get(policy or "")
