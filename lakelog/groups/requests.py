"""Requests of an admin about groups. Pure: generators, driven by threads or by tasks.

A request without an answer is retried where that does no harm. A reset is not: the answer to a retry would report the
change since the first attempt, not since the beginning.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

from lakelog.foundation.errors import UnknownGroup
from lakelog.foundation.names import group_segment
from lakelog.foundation.topic_partition import OffsetAndMetadata, TopicPartition
from lakelog.groups.shapes import (
    CommittedOffsets,
    Group,
    GroupDescription,
    GroupListing,
    GroupMember,
    Groups,
    Member,
    OffsetReset,
    Place,
    Resets,
)
from lakelog.transport.json_requests import JsonQuestions, read_answer
from lakelog.transport.retry import Asking, Pause, Rejected

#: An offset, or one with metadata.
Offset = int | OffsetAndMetadata
End = Literal["earliest", "latest"]
#: A topic and the number of a partition.
Partition = tuple[str, int]


class GroupQuestions(JsonQuestions):
    """Requests about groups; each method sends one, or a few."""

    def list_groups(self) -> Asking[list[GroupListing]]:
        what = "listing the groups"
        return read_answer(what, (yield from self.ask(what, "GET", "/groups")), Groups).groups

    def describe_group(self, group: str) -> Asking[GroupDescription]:
        path, what = _path(group), f"describing group {group}"
        return _described(read_answer(what, (yield from self.ask(what, "GET", path)), Group))

    def group_offsets(self, group: str) -> Asking[dict[TopicPartition, OffsetAndMetadata]]:
        path, what = f"{_path(group)}/offsets", f"asking for the offsets of group {group}"
        committed = read_answer(what, (yield from self.ask(what, "GET", path)), CommittedOffsets)
        return {
            TopicPartition(each.topic, each.partition): OffsetAndMetadata(each.next_offset, each.metadata)
            for each in committed.offsets
        }

    def alter_group_offsets(self, group: str, offsets: Mapping[Partition, Offset]) -> Asking[None]:
        path, what = f"{_path(group)}/offsets", f"setting offsets of group {group}"
        given = [_offset(partition, offset) for partition, offset in offsets.items()]
        if given:
            yield from self.ask(what, "PUT", path, {"offsets": given})
        else:
            yield Pause(0)

    def reset_group_offsets(
        self,
        group: str,
        *,
        to: End | None,
        timestamp: int | None,
        offset: int | None,
        shift: int | None,
        topics: Sequence[str] | None,
        partitions: Iterable[Partition] | None,
        dry_run: bool,
    ) -> Asking[dict[TopicPartition, OffsetReset]]:
        path, what = f"{_path(group)}/offsets:reset", f"resetting offsets of group {group}"
        said: dict[str, Any] = {"to": to, "timestamp": timestamp, "offset": offset, "shift": shift}
        if topics is not None:
            said["topics"] = [topics] if isinstance(topics, str) else list(topics)
        if partitions is not None:
            said["partitions"] = [{"topic": topic, "partition": number} for topic, number in partitions]
        body = {name: value for name, value in said.items() if value is not None} | {"dry_run": dry_run}
        heeded = yield from self.ask(what, "POST", path, body, repeatable=dry_run)
        return {
            TopicPartition(each.topic, each.partition): OffsetReset(each.before, each.after)
            for each in read_answer(what, heeded, Resets).partitions
        }

    def delete_group(self, group: str) -> Asking[None]:
        path = _path(group)
        try:
            yield from self.attempt(f"deleting group {group}", "DELETE", path)
        except Rejected as declined:
            error = declined.fault.error
            if not (declined.doubted and isinstance(error, UnknownGroup)):
                raise error from None

    def lag(self, group: str) -> Asking[dict[TopicPartition, int | None]]:
        described = yield from self.describe_group(group)
        return {place: partition.lag for place, partition in described.partitions.items()}


def _path(group: str) -> str:
    return f"/groups/{group_segment(group)}"


def _offset(partition: Partition, offset: Offset) -> dict[str, Any]:
    topic, number = partition
    next_offset, metadata = offset if isinstance(offset, OffsetAndMetadata) else (offset, "")
    return {"topic": topic, "partition": number, "next_offset": next_offset, "metadata": metadata}


def _described(given: Group) -> GroupDescription:
    return GroupDescription(
        given.group,
        given.state,
        given.generation,
        given.assignor,
        given.lag,
        tuple(_member(each) for each in given.members),
        {TopicPartition(each.topic, each.partition): each for each in given.partitions},
    )


def _member(given: Member) -> GroupMember:
    return GroupMember(
        given.instance_id,
        given.client_id,
        given.group_instance_id,
        given.standing,
        given.topics,
        given.topic_pattern,
        _places(given.assigned),
        _places(given.revoking),
    )


def _places(given: Sequence[Place]) -> tuple[TopicPartition, ...]:
    return tuple(TopicPartition(each.topic, each.partition) for each in given)
