"""A group to try one thing with: each call decides, applies and answers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from consumer_groups.decisions.commits import Commit, Commitment, Seek, decide_commit, decide_seek
from consumer_groups.decisions.expiry import decide_expiry
from consumer_groups.decisions.idle_groups import decide_topics_changed
from consumer_groups.decisions.last_attempt import Read
from consumer_groups.decisions.membership import Heartbeat, Join, Leave, decide_heartbeat, decide_join, decide_leave
from consumer_groups.decisions.polling import Fetch, FetchPlan, Poll, Taken, decide_delivery, decide_fetch, decide_poll
from consumer_groups.decisions.subscription import Assign, Subscribe, decide_assign, decide_subscribe
from consumer_groups.model.assignment import TopicPartition
from consumer_groups.model.cluster import Cluster, Topic
from consumer_groups.model.options import parse_options
from consumer_groups.model.records import Record
from consumer_groups.state.decision import Decision, apply, begin
from consumer_groups.state.invariants import check_invariants
from consumer_groups.state.state import Group, Groups
from delta_log.model.types import PartitionOffsets


def part(topic: str, number: int = 0) -> TopicPartition:
    return TopicPartition(topic, number)


class Stage:
    """One group `g` and the topics it may read, each with ten records in every partition."""

    def __init__(self, custom: tuple[str, ...] = (), **partitions: int) -> None:
        self.now = 1_000_000
        self.custom = custom
        self.groups = Groups()
        self.topics = {name: Topic(name, f"{name}-1", count) for name, count in partitions.items()}
        self.ends = {
            part(name, each): PartitionOffsets(0, 10) for name, count in partitions.items() for each in range(count)
        }
        self.last: Decision[Any] | None = None

    @property
    def group(self) -> Group:
        return self.groups.get("g")

    @property
    def cluster(self) -> Cluster:
        return Cluster(self.topics.values(), self.custom)

    def do(self, decision: Decision[Any]) -> Any:
        apply(self.groups, decision)
        check_invariants(self.group)
        self.last = decision
        return decision.reply

    def join(self, member_id: str, *topics: str, **options: object) -> None:
        """A member; subscribed if topics are named."""
        given = {name.replace("_", "."): value for name, value in options.items()}
        self.do(
            decide_join(
                self.group, Join(member_id, parse_options(given, custom=self.custom)[1]), self.cluster, self.now
            )
        )
        if topics:
            self.subscribe(member_id, *topics)

    def subscribe(self, member_id: str, *topics: str, **more: Any) -> None:
        self.do(decide_subscribe(self.group, Subscribe(member_id, topics, **more), self.cluster, self.now))

    def assign(self, member_id: str, *partitions: TopicPartition) -> None:
        self.do(decide_assign(self.group, Assign(member_id, partitions), self.cluster, self.now))

    def leave(self, member_id: str, **more: Any) -> None:
        self.do(decide_leave(self.group, Leave(member_id, **more), self.cluster, self.now))

    def heartbeat(self, member_id: str, **more: Any) -> Any:
        return self.do(decide_heartbeat(self.group, Heartbeat(member_id, **more), self.cluster, self.now))

    def begin_poll(self, member_id: str, *, wait_ms: int = 100, **more: Any) -> FetchPlan:
        self.do(decide_poll(self.group, Poll(member_id, self.now + wait_ms, **more), self.cluster, self.now))
        return self.fetch(member_id)

    def fetch(self, member_id: str, **more: Any) -> FetchPlan:
        return self.do(decide_fetch(self.group, Fetch(member_id, **more), self.cluster, self.ends, self.now))

    def end_poll(self, member_id: str, reads: tuple[Read, ...], most: int = 5, since: int | None = None) -> Any:
        taken = tuple(
            Taken(each, min(each.offset + most, self.ends[each.partition].end_offset, each.limit or 2**63))
            for each in reads
        )
        return self.do(decide_delivery(self.group, member_id, taken, self.cluster, self.now, since))

    def poll(self, member_id: str, most: int = 5, **more: Any) -> dict[TopicPartition, tuple[int, int]]:
        """What it is given of each partition: from where, and to before where."""
        reply = self.end_poll(member_id, self.begin_poll(member_id, **more).reads, most)
        return {each.read.partition: (each.read.offset, each.next_offset) for each in reply.accepted}

    def commit(self, member_id: str, offsets: Mapping[TopicPartition, int] | None = None, **more: Any) -> Any:
        given = None if offsets is None else {each: Commitment(offset) for each, offset in offsets.items()}
        return self.do(decide_commit(self.group, Commit(member_id, given, **more), self.cluster, self.ends, self.now))

    def seek(self, member_id: str, positions: Mapping[TopicPartition, Any], **more: Any) -> None:
        self.do(decide_seek(self.group, Seek(member_id, positions, **more), self.cluster, self.ends, self.now))

    def pass_time(self, ms: int) -> tuple[str, ...]:
        self.now += ms
        return self.do(decide_expiry(self.group, self.cluster, self.now))

    def change_topic(self, name: str, partitions: int, topic_id: str | None = None) -> None:
        """Made, grown, or made anew; without partitions it is deleted."""
        old = self.topics.pop(name, None)
        fresh = old is None or (topic_id is not None and topic_id != old.topic_id)
        if partitions:
            self.topics[name] = Topic(name, topic_id or (old.topic_id if old else f"{name}-1"), partitions)
        for number in range(max(partitions, old.partitions if old else 0)):
            if number >= partitions:
                del self.ends[part(name, number)]
            elif fresh or part(name, number) not in self.ends:
                self.ends[part(name, number)] = PartitionOffsets(0, 10)
        self.do(decide_topics_changed(self.group, self.cluster, self.now))

    def append(self, partition: TopicPartition, count: int = 10) -> None:
        known = self.ends[partition]
        self.ends[partition] = PartitionOffsets(known.log_start_offset, known.end_offset + count)

    def restart(self) -> None:
        self.groups = Groups(self.groups.records())
        begin(self.groups, self.now, 1)

    def owner(self, partition: TopicPartition) -> str | None:
        return self.group.owners.get(partition)

    def owned(self, member_id: str) -> set[TopicPartition]:
        return set(self.group.holdings[member_id].assigned)

    def committed(self, partition: TopicPartition) -> int | None:
        return self.group.committed(self.topics[partition.topic].topic_id, partition.partition)

    def records(self) -> tuple[Record, ...]:
        assert self.last is not None
        return self.last.records
