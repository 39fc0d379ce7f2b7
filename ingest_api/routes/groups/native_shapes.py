"""Requests and answers of lakelog's own routes of groups. Pure.

`next_offset` is the next one to read. A time is in milliseconds since 1970.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Final, Literal

import msgspec

from consumer_groups.decisions.admin import GroupDescription, GroupSummary, MemberDescription, Reset
from consumer_groups.decisions.lag import PartitionProgress, total_lag
from consumer_groups.model.assignment import TopicPartition
from consumer_groups.model.records import OffsetRecord
from delta_log.records.validation import LATEST_TIMESTAMP
from ingest_api.web.parameters import INT64_MAX

#: Most partitions of one request, so that no request delays the others.
MOST_PARTITIONS: Final = 10_000
TopicName = Annotated[str, msgspec.Meta(max_length=249)]
Number = Annotated[int, msgspec.Meta(ge=0, le=2**31 - 1)]
Offset = Annotated[int, msgspec.Meta(ge=0, le=INT64_MAX)]


class GroupEntry(msgspec.Struct):
    """`assignor` is null where nobody subscribes; `dead_letter_topics` are the last ten that members named or use."""

    group: str
    state: Literal["Empty", "Stable", "Reconciling", "Dead"]
    generation: int
    assignor: str | None
    members: int
    dead_letter_topics: tuple[str, ...] = ()


class GroupList(msgspec.Struct):
    groups: list[GroupEntry]


class PartitionName(msgspec.Struct):
    topic: str
    partition: int


class MemberView(msgspec.Struct):
    """`assigned` is what it may read, `revoking` what it is to give up.

    `standing` is `active`; `lapsed`: it lives, but did not poll in time, and owns nothing until it does; `away`: a
    static member that left and may come back. `topics` or `topic_pattern` is its subscription.
    """

    instance_id: str
    client_id: str
    group_instance_id: str | None
    standing: Literal["active", "lapsed", "away"]
    topics: list[str] | None
    topic_pattern: str | None
    assigned: list[PartitionName]
    revoking: list[PartitionName]


class ProgressView(msgspec.Struct):
    """`next_offset`, `metadata` and `committed_at_ms` are null where nothing is committed.

    `lag` counts the records from there to the end. Where nothing is committed it counts from where the reset policy of
    the owner began, or would begin: `earliest` is all there is, `latest` nothing. It is null where that is not known.
    """

    topic: str
    partition: int
    owner: str | None
    next_offset: int | None
    log_start_offset: int | None
    end_offset: int | None
    lag: int | None
    metadata: str | None
    committed_at_ms: int | None


class GroupView(msgspec.Struct):
    """`lag` is the sum over the partitions where it is known."""

    group: str
    state: Literal["Empty", "Stable", "Reconciling", "Dead"]
    generation: int
    assignor: str | None
    lag: int
    members: list[MemberView]
    partitions: list[ProgressView]


class CommittedView(msgspec.Struct):
    topic: str
    partition: int
    next_offset: int
    metadata: str
    committed_at_ms: int


class CommittedList(msgspec.Struct):
    offsets: list[CommittedView]


class NewOffset(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    topic: TopicName
    partition: Number
    next_offset: Offset
    metadata: str | None = None


class PutOffsets(msgspec.Struct, forbid_unknown_fields=True):
    offsets: Annotated[list[NewOffset], msgspec.Meta(min_length=1, max_length=MOST_PARTITIONS)]


class ChosenPartition(msgspec.Struct, forbid_unknown_fields=True):
    topic: TopicName
    partition: Number


class ResetRequest(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """Where to, and of which partitions.

    Exactly one of `to`, `timestamp` (the first record at or after it), `offset` and `shift` (so many records on, or
    back). Of all partitions of `topics`, or of `partitions`, or of all that the group has offsets of.
    """

    to: Literal["earliest", "latest"] | None = None
    timestamp: Annotated[int, msgspec.Meta(ge=0, le=LATEST_TIMESTAMP)] | None = None
    offset: Offset | None = None
    shift: Annotated[int, msgspec.Meta(ge=-INT64_MAX, le=INT64_MAX)] | None = None
    topics: Annotated[list[TopicName], msgspec.Meta(min_length=1)] | None = None
    partitions: Annotated[list[ChosenPartition], msgspec.Meta(min_length=1)] | None = None
    dry_run: bool = False


class ResetPartition(msgspec.Struct):
    """`before` is null where nothing was committed."""

    topic: str
    partition: int
    before: int | None
    after: int


class ResetView(msgspec.Struct):
    group: str
    dry_run: bool
    partitions: list[ResetPartition]


def show_summary(given: GroupSummary) -> GroupEntry:
    return GroupEntry(*given)


def show_group(given: GroupDescription, partitions: Sequence[PartitionProgress]) -> GroupView:
    summary = given.summary
    return GroupView(
        summary.group,
        summary.state,
        summary.generation,
        summary.assignor,
        total_lag(partitions),
        [_show_member(each) for each in given.members],
        [_show_progress(each) for each in partitions],
    )


def show_committed(given: Sequence[OffsetRecord]) -> CommittedList:
    shown = [
        CommittedView(each.topic, each.partition, each.next_offset, each.metadata, each.committed_at_ms)
        for each in given
    ]
    return CommittedList(sorted(shown, key=lambda each: (each.topic, each.partition)))


def show_reset(group: str, resets: dict[TopicPartition, Reset], *, dry_run: bool) -> ResetView:
    shown = [ResetPartition(*partition, reset.before, reset.after) for partition, reset in sorted(resets.items())]
    return ResetView(group, dry_run, shown)


def _show_member(given: MemberDescription) -> MemberView:
    member = given.member
    return MemberView(
        instance_id=member.member_id,
        client_id=member.client_id,
        group_instance_id=member.options.group_instance_id,
        standing=member.standing,
        topics=None if member.topics is None else list(member.topics),
        topic_pattern=member.pattern,
        assigned=[PartitionName(*each) for each in given.assigned],
        revoking=[PartitionName(*each) for each in given.revoking],
    )


def _show_progress(given: PartitionProgress) -> ProgressView:
    committed, offsets = given.committed, given.offsets
    return ProgressView(
        *given.partition,
        owner=given.owner,
        next_offset=None if committed is None else committed.next_offset,
        log_start_offset=None if offsets is None else offsets.log_start_offset,
        end_offset=None if offsets is None else offsets.end_offset,
        lag=given.lag,
        metadata=None if committed is None else committed.metadata,
        committed_at_ms=None if committed is None else committed.committed_at_ms,
    )
