"""What an assignor is given, what it gives back, and the order in which it looks at both.

It knows members and partitions. It must not know any one assignor.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Final, NamedTuple

import msgspec


class TopicPartition(NamedTuple):
    topic: str
    partition: int


_MOST_SHARED: Final = 100_000
_FEW: Final = 250


class _Shared:
    """Each partition once, by topic and number: holdings, targets and owners of all groups name the same ones."""

    def __init__(self) -> None:
        self.topics: dict[str, dict[int, TopicPartition]] = {}
        self.count = 0


_shared: Final = _Shared()


def share(topic: str, numbers: Iterable[int]) -> list[TopicPartition]:
    """Partitions of one topic, in the order given."""
    known = _shared.topics.setdefault(topic, {})
    before = len(known)
    found = [known.get(number) or known.setdefault(number, TopicPartition(topic, number)) for number in numbers]
    _shared.count += len(known) - before
    if _shared.count > _MOST_SHARED:  # the topics of before may be gone
        _shared.topics, _shared.count = {}, 0
    return found


def in_order(partitions: Collection[TopicPartition]) -> list[TopicPartition]:
    """Sorted, many of them topic by topic: no other thread runs Python in the middle of a sort."""
    if len(partitions) < _FEW:
        return sorted(partitions)
    numbers: dict[str, list[int]] = {}
    for topic, number in partitions:
        numbers.setdefault(topic, []).append(number)
    return [one for topic in sorted(numbers) for one in share(topic, sorted(numbers[topic]))]


class Subscriber(msgspec.Struct, frozen=True):
    """One member as an assignor sees it. Member ids are distinct within a group."""

    member_id: str
    topics: frozenset[str]
    """What it is subscribed to, patterns resolved already."""
    instance_id: str | None = None
    """Static members have one, and keep it when they come back under another member id."""
    owned: frozenset[TopicPartition] = frozenset()
    """What it owned before. Only sticky looks at it."""


Assignment = Mapping[str, frozenset[TopicPartition]]
"""An entry for every member, empty where it owns nothing."""

Assignor = Callable[[Sequence[Subscriber], Mapping[str, int]], Assignment]
"""Subscribers and the number of partitions of each topic in, an assignment out. Pure, whatever order they come in."""


def order_members(subscribers: Iterable[Subscriber]) -> list[Subscriber]:
    """Order static members by instance id, then the others by member id, as Kafka does."""
    return sorted(subscribers, key=_place)


def group_topics(subscribers: Iterable[Subscriber], partitions: Mapping[str, int]) -> dict[str, list[Subscriber]]:
    """Find the subscribers of each topic that is there and wanted: topics in order, subscribers in the order given."""
    wanted: dict[str, list[Subscriber]] = {}
    for subscriber in subscribers:
        for topic in subscriber.topics:
            if partitions.get(topic, 0) > 0:
                wanted.setdefault(topic, []).append(subscriber)
    return {topic: wanted[topic] for topic in sorted(wanted, key=_java_order)}


def _place(subscriber: Subscriber) -> tuple[bool, bytes, bytes]:
    static = subscriber.instance_id is not None
    return not static, _java_order(subscriber.instance_id or ""), _java_order(subscriber.member_id)


def _java_order(text: str) -> bytes:
    """Names are ordered by their UTF-16 code units as in Java: an astral character comes before U+E000."""
    return text.encode("utf-16-be", "surrogatepass")
