"""Assembly of a consumer's decision logic: the lanes that run by themselves, and the caller's calls. Pure."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from lakelog.consume.api_calls import Calls
from lakelog.consume.buffer import Buffer
from lakelog.consume.committing import Committing
from lakelog.consume.consumer_state import ConsumerState
from lakelog.consume.effects import Doing
from lakelog.consume.fetching import Fetching
from lakelog.consume.instance_api import Wire
from lakelog.consume.membership import Membership
from lakelog.consume.requests import ConsumerQuestions
from lakelog.consume.settings import ConsumerSettings
from lakelog.consume.shapes import GroupMetadata
from lakelog.consume.subscription import Pattern, Topics
from lakelog.foundation.deserializers import deserializer_of
from lakelog.foundation.topic_partition import TopicPartition


class Lane(NamedTuple):
    """A generator that runs by itself until the consumer ends."""

    name: str
    run: Callable[[], Doing[None]]


class Consumption:
    """State, calls and lanes of one consumer. `new_name` returns a unique name."""

    def __init__(self, settings: ConsumerSettings, new_name: Callable[[], str]) -> None:
        key, value = (deserializer_of(each) for each in (settings.key_deserializer, settings.value_deserializer))
        self.known = ConsumerState(settings, Buffer(key, value))
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
        """Partitions that were announced to the caller as assigned."""
        return frozenset(each.partition for each in self.known.held.values() if each.announced)

    @property
    def paused(self) -> frozenset[TopicPartition]:
        return frozenset(each.partition for each in self.known.held.values() if each.paused)

    @property
    def metadata(self) -> GroupMetadata:
        of, known = self.known.settings, self.known
        return GroupMetadata(of.group_id, known.member or "", known.generation, of.group_instance_id)
