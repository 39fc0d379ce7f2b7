"""What a decision is, and how it becomes true.

A decision changes nothing. Whoever makes one applies it at once, so that the next sees it; has its records written;
and answers with its reply only when they, and all that were applied before them, are durable. If writing fails, what
was applied is undone, the latest first, and none of those replies is given. Pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from consumer_groups.model.records import Key, Record
from consumer_groups.state.member_session import Heard, Note, Position, note
from consumer_groups.state.state import Group, Groups, replay

#: A member is given fewer answers than this has numbers, in one life.
ANSWER_BITS: Final = 32

Reply_co = TypeVar("Reply_co", covariant=True)


@dataclass(frozen=True, slots=True)
class Decision(Generic[Reply_co]):
    """`records` are to be durable before `reply` is given; `notes` are for memory.

    `generation` is the group's when all is applied. `woken` are the members whose partitions change: a poll of theirs
    that waits should look again.
    """

    group: str
    reply: Reply_co
    generation: int
    records: tuple[Record, ...] = ()
    notes: tuple[Note, ...] = ()
    woken: frozenset[str] = frozenset()


def apply(groups: Groups, decision: Decision[object]) -> list[Record]:
    """Make a decision true; answers what `undo` needs."""
    displaced = [replay(groups, record) for record in decision.records]
    if decision.notes and (group := groups.by_name.get(decision.group)) is not None:
        for said in decision.notes:
            if (presence := group.presences.get(said.member_id)) is not None:
                note(presence, said)
    return displaced


def undo(groups: Groups, displaced: Sequence[Record], now_ms: int) -> None:
    """Take back what could not be written: of several decisions the latest first.

    What memory knew of the partitions concerned is forgotten: they are read again from what is durable.
    """
    for record in reversed(displaced):
        replay(groups, record)
    for name in {record.group for record in displaced}:
        if (group := groups.by_name.get(name)) is not None:
            _forget_places(group, {record.key for record in displaced})
            _start_sessions(group, now_ms, anew=False)


def begin(groups: Groups, now_ms: int, life: int) -> None:
    """After loading. `life` is larger with each process that owns the groups: none numbers answers as another did."""
    refresh(groups, now_ms)
    for group in groups.by_name.values():
        for presence in group.presences.values():
            presence.answer, presence.recalled = life << ANSWER_BITS, True


def refresh(groups: Groups, now_ms: int) -> None:
    """Give every member a fresh full session: nobody could be heard."""
    for name in groups.by_name:
        refresh_group(groups, name, now_ms)


def refresh_group(groups: Groups, name: str, now_ms: int) -> None:
    """The same for the members of one."""
    if (group := groups.by_name.get(name)) is not None:
        _start_sessions(group, now_ms, anew=True)


def record_liveness(groups: Groups, group: str, member_id: str, now_ms: int) -> None:
    """Any request of a member says that it lives, one that is refused as well."""
    found = groups.by_name.get(group)
    presence = None if found is None else found.presences.get(member_id)
    if found is not None and presence is not None and found.members[member_id].standing != "away":
        note(presence, Heard(member_id, now_ms))


def _forget_places(group: Group, undone: set[Key]) -> None:
    for presence in group.presences.values():
        for partition, place in presence.places.items():
            if ("position", group.name, place.topic_id, partition.partition) in undone:
                presence.places[partition] = Position()


def _start_sessions(group: Group, now_ms: int, *, anew: bool) -> None:
    for member_id, presence in group.presences.items():
        if anew or presence.heard_at_ms is None:
            presence.heard_at_ms = presence.polled_at_ms = presence.committed_at_ms = now_ms
            presence.polling_until_ms = None
            presence.revoke_by_ms.clear()
        if (held := group.holdings.get(member_id)) is not None:
            by_ms = now_ms + group.members[member_id].options.rebalance_timeout_ms
            for partition in held.revoking:
                presence.revoke_by_ms.setdefault(partition, by_ms)
