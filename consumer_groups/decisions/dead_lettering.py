"""Giving up records: they become dead letters, and the group skips them.

    next in line    the committed offset moves past it, and past what is marked behind it
    not yet         a mark is kept, and no delivery contains it any more

A record that moved the committed offset is marked, too, until the next commit: a client that lost the answer can
repeat the request safely. Only the current owner may, as with a commit. It must not know how a letter is stored.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from consumer_groups.decisions.commits import check_owner, check_partition
from consumer_groups.decisions.count_attempts import forget_attempts
from consumer_groups.decisions.membership import require_member
from consumer_groups.decisions.positions import group_position, put_offset
from consumer_groups.model.assignment import TopicPartition
from consumer_groups.model.cluster import Cluster, Offsets
from consumer_groups.model.dead_letter import dead_letter_topics
from consumer_groups.model.errors import NotOpen, PartitionUnavailable, PollOverdue
from consumer_groups.model.records import SkipRecord
from consumer_groups.state.decision import Decision
from consumer_groups.state.group_draft import Draft
from consumer_groups.state.member_session import Heard
from consumer_groups.state.state import Group


class Spot(NamedTuple):
    """Partition and offset of a record."""

    partition: TopicPartition
    offset: int


@dataclass(frozen=True, slots=True)
class GiveUp:
    """Records to dead-letter, each with a reason. `spoiled`: they were tried too often; attempt counts are dropped."""

    member_id: str
    reasons: Mapping[Spot, str]
    generation: int | None = None
    spoiled: bool = False


class Open(NamedTuple):
    """Records not marked yet, by topic id, with how often they were delivered.

    Letters go to the first topic of `to`; those that it cannot take, to the next.
    """

    attempts: Mapping[tuple[str, Spot], int]
    to: tuple[str, ...]


class Outdated(Exception):
    """Raised if records were marked, or a topic changed, since the plan was made: plan again."""


def plan_giving_up(group: Group, command: GiveUp, cluster: Cluster, offsets: Offsets) -> Open:
    """Plan which records to mark; refused as a whole if the group cannot skip one of them."""
    member = require_member(group, command.member_id, command.generation)
    if member.standing == "lapsed":
        raise PollOverdue(group.name, member.member_id, member.options.max_poll_interval_ms, group.generation)
    found: dict[tuple[str, Spot], int] = {}
    for spot in command.reasons:
        partition, offset = spot
        topic, known = check_partition(cluster, partition), offsets.get(partition)
        check_owner(group, member, partition, topic, command.generation)
        if group.is_skipped(topic.topic_id, partition.partition, offset):
            continue
        if known is None:
            raise PartitionUnavailable(*partition)
        least = max(known.log_start_offset, group_position(group, topic.topic_id, partition.partition) or 0)
        if not least <= offset < known.end_offset:
            raise NotOpen(group.name, *partition, offset, least, known.end_offset - 1)
        attempts = group.attempts_at(topic.topic_id, partition.partition).of(offset)
        found[topic.topic_id, spot] = attempts + (not command.spoiled)
    return Open(found, dead_letter_topics(group.name, member.options.dead_letter_topic))


def decide_giving_up(
    group: Group,
    command: GiveUp,
    planned: Open,
    cluster: Cluster,
    offsets: Offsets,
    now_ms: int,
    *,
    filled: Collection[str] = (),
) -> Decision[None]:
    """Mark exactly what was planned, as its letters are stored with it, in the `filled` topics; else raise Outdated."""
    found = plan_giving_up(group, command, cluster, offsets)
    if (found.attempts.keys(), found.to) != (planned.attempts.keys(), planned.to):
        raise Outdated
    draft = Draft(group, cluster, now_ms)
    draft.notes.append(Heard(command.member_id, now_ms))
    for topic in (found.to[0], *filled):
        draft.note_dead_letters(topic)
    given_up: dict[tuple[TopicPartition, str], set[int]] = {}
    for topic_id, (partition, offset) in found.attempts:
        given_up.setdefault((partition, topic_id), set()).add(offset)
    for (partition, topic_id), marked in given_up.items():
        _advance(draft, partition, topic_id, marked)
        if command.spoiled:
            forget_attempts(draft, partition, topic_id)
        for offset in sorted(marked):
            draft.put(
                SkipRecord(
                    group=group.name,
                    topic=partition.topic,
                    topic_id=topic_id,
                    partition=partition.partition,
                    offset=offset,
                )
            )
    return draft.decide(None)


def _advance(draft: Draft, partition: TopicPartition, topic_id: str, marked: set[int]) -> None:
    """Move the committed offset past given-up records that are next in line; a position the owner sought stays."""
    group, number = draft.group, partition.partition
    line = reached = group_position(group, topic_id, number)
    if line is None or reached is None:
        return
    while reached in marked or group.is_skipped(topic_id, number, reached):
        reached += 1
    if reached > line:
        record = group.offsets.get(topic_id, {}).get(number)
        put_offset(draft, partition, topic_id, reached, "" if record is None else record.metadata, keep_seek=True)
