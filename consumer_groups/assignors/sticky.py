"""Sticky assignor: loads as equal as possible, and among such assignments the one that moves fewest partitions.

Partitions with the same subscribers differ only by their previous owners, so balance is found in counts (`balance`)
and only then turned into partitions: previous owners keep as many as their count allows, and the rest is dealt out in
turn, first to the members with the least load. If two members claim the same partition, neither claim counts, as in
Kafka: the partition has no owner.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from consumer_groups.assignors.balance import Counts, balance_counts
from consumer_groups.assignors.subscribers import (
    Assignment,
    Subscriber,
    TopicPartition,
    group_topics,
    in_order,
    order_members,
    share,
)

NOBODY: Final = -1


class _Pool(msgspec.Struct, frozen=True):
    """Partitions that have the same subscribers; members are given by their index in the order."""

    subscribers: tuple[int, ...]
    owned: dict[int, list[TopicPartition]] = {}
    free: list[TopicPartition] = []

    @property
    def size(self) -> int:
        return len(self.free) + sum(map(len, self.owned.values()))


def assign_sticky(subscribers: Sequence[Subscriber], partitions: Mapping[str, int]) -> Assignment:
    members = order_members(subscribers)
    pools = _pool_partitions(members, partitions)
    counts = balance_counts(
        members=len(members),
        sizes=[pool.size for pool in pools],
        subscribers=[pool.subscribers for pool in pools],
        owned=[{member: len(its) for member, its in pool.owned.items()} for pool in pools],
    )
    given: list[list[TopicPartition]] = [[] for _ in members]
    for pool, wanted in zip(pools, counts, strict=True):
        _deal_out(pool, wanted, given)
    return {member.member_id: frozenset(its) for member, its in zip(members, given, strict=True)}


def _pool_partitions(members: Sequence[Subscriber], partitions: Mapping[str, int]) -> list[_Pool]:
    owners = _believe(members, partitions)
    places = {member.member_id: place for place, member in enumerate(members)}
    pools: dict[tuple[int, ...], _Pool] = {}
    for topic, its in group_topics(members, partitions).items():
        key = tuple(places[member.member_id] for member in its)
        pool = pools.setdefault(key, _Pool(key))
        for one in share(topic, range(partitions[topic])):
            owner = owners.get(one, NOBODY)
            (pool.free if owner == NOBODY else pool.owned.setdefault(owner, [])).append(one)
    return list(pools.values())


def _believe(members: Sequence[Subscriber], partitions: Mapping[str, int]) -> dict[TopicPartition, int]:
    """Find the owner of each partition that still exists, with exactly one claimant that is still subscribed to it."""
    owners: dict[TopicPartition, int] = {}
    for place, member in enumerate(members):
        for one in member.owned:
            if one.topic in member.topics and 0 <= one.partition < partitions.get(one.topic, 0):
                owners[one] = NOBODY if one in owners else place
    return owners


def _deal_out(pool: _Pool, wanted: Counts, given: list[list[TopicPartition]]) -> None:
    left, missing = list(pool.free), dict(wanted)
    for member, its in pool.owned.items():
        count = wanted.get(member, 0)
        given[member] += its[:count]
        left += its[count:]
        missing[member] = count - len(its)
    turns = sorted((len(given[member]) + turn, member) for member, count in missing.items() for turn in range(count))
    for one, (_, member) in zip(in_order(left), turns, strict=True):
        given[member].append(one)
