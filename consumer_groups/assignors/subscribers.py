"""Input and output of assignors, and the order in which they process them.

It knows members and partitions. It must not know any particular assignor.
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
    """Cache of partition objects by topic and number, shared by holdings, targets and owners of all groups."""

    def __init__(self) -> None:
        self.topics: dict[str, dict[int, TopicPartition]] = {}
        self.count = 0


_shared: Final = _Shared()


def share(topic: str, numbers: Iterable[int]) -> list[TopicPartition]:
    """Shared partition objects of one topic, in the order given."""
    known = _shared.topics.setdefault(topic, {})
    before = len(known)
    found = [known.get(number) or known.setdefault(number, TopicPartition(topic, number)) for number in numbers]
    _shared.count += len(known) - before
    if _shared.count > _MOST_SHARED:  # earlier topics may be gone
        _shared.topics, _shared.count = {}, 0
    return found


def in_order(partitions: Collection[TopicPartition]) -> list[TopicPartition]:
    """Sort partitions, many of them topic by topic: a sort blocks other Python threads until it ends."""
    if len(partitions) < _FEW:
        return sorted(partitions)
    numbers: dict[str, list[int]] = {}
    for topic, number in partitions:
        numbers.setdefault(topic, []).append(number)
    return [one for topic in sorted(numbers) for one in share(topic, sorted(numbers[topic]))]


class Subscriber(msgspec.Struct, frozen=True):
    """A member as an assignor sees it. Member ids are distinct within a group."""

    member_id: str
    topics: frozenset[str]
    """Topics that it is subscribed to, with patterns resolved."""
    instance_id: str | None = None
    """Instance id of a static member, which keeps it when it comes back under another member id."""
    owned: frozenset[TopicPartition] = frozenset()
    """Partitions it owned before. Only the sticky assignor uses them."""


Assignment = Mapping[str, frozenset[TopicPartition]]
"""An entry for every member, empty where it owns nothing."""

Assignor = Callable[[Sequence[Subscriber], Mapping[str, int]], Assignment]
"""Maps subscribers and the number of partitions of each topic to an assignment. Pure; input order does not matter."""


def order_members(subscribers: Iterable[Subscriber]) -> list[Subscriber]:
    """Order static members by instance id, then the others by member id, as Kafka does."""
    return sorted(subscribers, key=_place)


def group_topics(subscribers: Iterable[Subscriber], partitions: Mapping[str, int]) -> dict[str, list[Subscriber]]:
    """Find the subscribers of each existing, subscribed topic: topics sorted, subscribers in the order given."""
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
    """Sort key by UTF-16 code units, as in Java: an astral character comes before U+E000."""
    return text.encode("utf-16-be", "surrogatepass")
