"""Registry of assignors, and the rules that every assignment keeps.

It knows members and partitions. It must not know groups, generations, HTTP or time.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

from consumer_groups.assignors.custom import NotLoadable, load_function
from consumer_groups.assignors.range import assign_range
from consumer_groups.assignors.round_robin import assign_round_robin
from consumer_groups.assignors.sticky import assign_sticky
from consumer_groups.assignors.subscribers import Assignment, Assignor, Subscriber, TopicPartition, in_order, share
from delta_log.model.errors import InvalidConfig, LakelogError

__all__ = [
    "ASSIGNORS",
    "Assignment",
    "Assignor",
    "Subscriber",
    "TopicPartition",
    "UnknownAssignor",
    "UnlawfulAssignment",
    "assignor_named",
    "check_assignment",
    "in_order",
    "share",
]

SETTING: Final = "partition.assignment.strategy"
SHOWN: Final = 3  # names in a message

ASSIGNORS: Final[Mapping[str, Assignor]] = MappingProxyType(
    {
        "range": assign_range,
        "roundrobin": assign_round_robin,
        "sticky": assign_sticky,
        # In Kafka the two differ in how a client moves to the outcome, not in the outcome.
        "cooperative-sticky": assign_sticky,
    }
)


class UnknownAssignor(InvalidConfig):
    """No assignor has this name, or it may not be loaded."""

    def __init__(self, name: str, why: str) -> None:
        self.why, self.known = why, tuple(ASSIGNORS)
        super().__init__(SETTING, name, f"{why}; there are {', '.join(ASSIGNORS)} and custom ones as module:function")


class UnlawfulAssignment(LakelogError):
    """An assignor returned an assignment that breaks the rules."""

    code = "INVALID_ASSIGNMENT"

    def __init__(self, what: str) -> None:
        self.what = what
        super().__init__(f"the assignment is not lawful: {what}")


def assignor_named(name: str, custom: Collection[str] | None = None) -> Assignor:
    """Find an assignor by its name.

    A name with a colon is imported, which runs its module: callers that take names from untrusted clients pass those
    allowed as `custom`. None allows all. The outcome of a custom assignor is checked each time.
    """
    known = ASSIGNORS.get(name.lower())
    if known is not None:
        return known
    if ":" not in name:
        raise UnknownAssignor(name, "no assignor has this name")
    if custom is not None and name not in custom:
        raise UnknownAssignor(name, "this custom assignor is not among those that may be loaded")
    try:
        return _checked(name, load_function(name))
    except NotLoadable as error:
        raise UnknownAssignor(name, str(error)) from error


def check_assignment(subscribers: Sequence[Subscriber], partitions: Mapping[str, int], assignment: Assignment) -> None:
    """Check that each partition of subscribed topics has one owner, subscribed to it, and each member an entry."""
    topics = {subscriber.member_id: subscriber.topics for subscriber in subscribers}
    if strangers := assignment.keys() ^ topics.keys():
        raise UnlawfulAssignment(f"members without an entry, or entries without a member: {_some(strangers)}")
    owner: dict[TopicPartition, str] = {}
    for member_id, its in assignment.items():
        for one in its:
            if not 0 <= one[1] < partitions.get(one[0], 0):
                raise UnlawfulAssignment(f"{member_id!r} is given {one!r}, which is not there")
            if one[0] not in topics[member_id]:
                raise UnlawfulAssignment(f"{member_id!r} is given {one!r} without being subscribed to it")
            if one in owner:
                raise UnlawfulAssignment(f"{one!r} is given to both {owner[one]!r} and {member_id!r}")
            owner[one] = member_id
    wanted = sum(partitions.get(topic, 0) for topic in frozenset[str]().union(*topics.values()))
    if len(owner) != wanted:
        raise UnlawfulAssignment(f"{wanted - len(owner)} of {wanted} partitions are given to nobody")


def _checked(name: str, function: Callable[..., Any]) -> Assignor:
    def assign(subscribers: Sequence[Subscriber], partitions: Mapping[str, int]) -> Assignment:
        try:
            outcome = {
                member_id: frozenset(TopicPartition(*one) for one in its)
                for member_id, its in function(tuple(subscribers), MappingProxyType(dict(partitions))).items()
            }
        except Exception as error:
            raise UnlawfulAssignment(f"{name} gave none: {error!r}") from error
        check_assignment(subscribers, partitions, outcome)
        return outcome

    return assign


def _some(names: Collection[str]) -> str:
    shown = ", ".join(repr(name) for name in sorted(names)[:SHOWN])
    return shown if len(names) <= SHOWN else f"{shown} and {len(names) - SHOWN} more"
