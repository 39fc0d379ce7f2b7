"""Last attempts: a record's last attempt is delivered alone, so that a crash can be attributed to it.

    attempts = maximum                 given up before its partition is read on, if it ever was delivered alone
    attempts = maximum − 1             alone in an answer, over all partitions; reads before it end there
    fewer                              delivered as usual

A member with other records in hand gets an empty answer that announces the last try. Records below the committed
offset were sought, and are delivered as often as that happens. It must not know how attempts are counted. Pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from consumer_groups.decisions.positions import group_position
from consumer_groups.model.assignment import TopicPartition
from consumer_groups.model.records import MemberRecord
from consumer_groups.state.member_session import Presence
from consumer_groups.state.state import Group


@dataclass(frozen=True, slots=True)
class Read:
    """A read from `offset` on, up to before `limit` if there is one.

    `epoch`: the generation in which the member was given the partition. With `last_try` it is one record.
    """

    partition: TopicPartition
    topic_id: str
    epoch: int
    offset: int
    limit: int | None = None
    last_try: bool = False


@dataclass(frozen=True, slots=True)
class PoisonRecord:
    """A record that reached max.delivery.attempts: a dead letter."""

    partition: TopicPartition
    offset: int
    attempts: int


class Chosen(NamedTuple):
    """Reads to deliver now. With `last_try` it is one record; none while the member has other records in hand."""

    reads: tuple[Read, ...]
    last_try: bool


def bound(group: Group, member: MemberRecord, read: Read) -> Read | PoisonRecord:
    """Limit a read: it ends before a marked record, and before one that is to be delivered alone."""
    topic_id, number = read.topic_id, read.partition.partition
    limit = group.next_skip(topic_id, number, read.offset)
    most = member.options.most_attempts
    if most is None:
        return read if limit is None else replace(read, limit=limit)
    attempts = group.attempts_at(topic_id, number)
    since = max(read.offset, group_position(group, topic_id, number) or 0)
    if since == read.offset and attempts.of(since) >= most and attempts.was_alone(since):
        return PoisonRecord(read.partition, since, attempts.of(since))
    last = attempts.first_with(most - 1, since)
    if last == read.offset:
        return replace(read, limit=read.offset + 1, last_try=True)
    limits = [each for each in (limit, last) if each is not None]
    return replace(read, limit=min(limits)) if limits else read


def choose(reads: Sequence[Read], presence: Presence) -> Chosen:
    """Choose reads in turn, last tries included; after a last try, nothing is delivered until it is done with."""
    if reads and any(each.last_try for each in presence.tried):
        return Chosen((), last_try=True)
    if reads and reads[0].last_try:
        in_hand = presence.in_hand or bool(presence.tried)
        return Chosen(() if in_hand else (reads[0],), last_try=True)
    return Chosen(tuple(read for read in reads if not read.last_try), last_try=False)
