"""All that decides in a consumer, put together: the lanes that go on by themselves, and what a caller may do. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from lakelog.consume.buffer import Buffer
from lakelog.consume.calling import Calls
from lakelog.consume.committing import Committing
from lakelog.consume.fetching import Fetching
from lakelog.consume.knowledge import Knowledge, Pattern, Topics
from lakelog.consume.membership import Membership
from lakelog.consume.questions import ConsumerQuestions
from lakelog.consume.settings import ConsumerSettings
from lakelog.consume.shapes import GroupMetadata
from lakelog.consume.steps import Doing
from lakelog.consume.wire import Wire
from lakelog.deserializers import deserializer_of
from lakelog.errors import IllegalState, LakelogError
from lakelog.names import check_topic
from lakelog.places import OffsetAndMetadata, TopicPartition

Partition = tuple[str, int]
Offset = int | OffsetAndMetadata
OnCommit = Callable[[LakelogError | None, dict[TopicPartition, OffsetAndMetadata]], object]


class Lane(NamedTuple):
    """Something that goes on by itself until the consumer ends."""

    name: str
    run: Callable[[], Doing[None]]


class Consumption:
    """`new_name` answers a name that nobody ever had."""

    def __init__(self, settings: ConsumerSettings, new_name: Callable[[], str]) -> None:
        key, value = (deserializer_of(each) for each in (settings.key_deserializer, settings.value_deserializer))
        self.known = Knowledge(settings, Buffer(key, value))
        self.calls = Calls(self.known)
        self.asks = ConsumerQuestions(settings)
        wire = Wire(settings)
        self.fetching = Fetching(self.known, wire)
        self.lanes = (
            Lane("membership", Membership(self.known, wire, new_name).run),
            Lane("records", self.fetching.run),
            Lane("commits", Committing(self.known, wire).run),
        )

    @property
    def subscription(self) -> frozenset[str]:
        wanted = self.known.wanted
        if isinstance(wanted, Pattern):
            return frozenset(partition.topic for partition in self.known.held)
        return frozenset(wanted.names) if isinstance(wanted, Topics) else frozenset()

    @property
    def assignment(self) -> frozenset[TopicPartition]:
        """What the caller knows to be his."""
        return frozenset(each.partition for each in self.known.held.values() if each.announced)

    @property
    def paused(self) -> frozenset[TopicPartition]:
        return frozenset(each.partition for each in self.known.held.values() if each.paused)

    @property
    def metadata(self) -> GroupMetadata:
        of, known = self.known.settings, self.known
        return GroupMetadata(of.group_id, known.member or "", known.generation, of.group_instance_id)


def read_wanted(topics: Iterable[str] | str | None, pattern: str | None) -> Topics | Pattern:
    """What a caller subscribes to."""
    if (topics is None) == (pattern is None):
        raise IllegalState("a subscription is either to topics or to a pattern")
    if pattern is not None:
        return Pattern(pattern)
    chosen = (topics,) if isinstance(topics, str) else tuple(dict.fromkeys(topics or ()))
    for topic in chosen:
        check_topic(topic)
    if not chosen:
        raise IllegalState("a subscription is to one topic at least; unsubscribe ends one")
    return Topics(chosen)


def read_partitions(given: Iterable[Partition]) -> list[TopicPartition]:
    partitions: list[TopicPartition] = []
    for topic, partition in given:
        check_topic(topic)
        if type(partition) is not int or partition < 0:
            raise IllegalState(f"a partition is a whole number, 0 or more, not {partition!r}")
        partitions.append(TopicPartition(topic, partition))
    return list(dict.fromkeys(partitions))


def read_offset(given: object) -> int:
    if type(given) is not int or given < 0:
        raise IllegalState(f"an offset is a whole number, 0 or more, not {given!r}")
    return given


def read_offsets(given: Mapping[Partition, Offset] | None) -> dict[TopicPartition, OffsetAndMetadata] | None:
    """The offsets to commit: each a number, or one with a note."""
    if given is None:
        return None
    entries = [OffsetAndMetadata(each) if isinstance(each, int) else each for each in given.values()]
    for offset, _ in entries:
        read_offset(offset)
    return dict(zip(read_partitions(given), entries, strict=True))
