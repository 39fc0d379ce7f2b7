"""Decisions, and how they are applied and undone.

A decision changes nothing by itself. Its maker applies it at once, so that the next decision sees it; has its records
written; and sends its reply only when they, and all applied before them, are durable. If writing fails, what was
applied is undone, the latest first, and none of those replies is sent. Pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from consumer_groups.model.records import Key, Record
from consumer_groups.state.member_session import Heard, Note, Position, note
from consumer_groups.state.state import Group, Groups, replay

#: Bits for the number of an answer within one life of the process: never exhausted by one member.
ANSWER_BITS: Final = 32

Reply_co = TypeVar("Reply_co", covariant=True)


@dataclass(frozen=True, slots=True)
class Decision(Generic[Reply_co]):
    """A decision. `records` must be durable before `reply` is given; `notes` change memory only.

    `generation` is the group's after it is applied. `woken`: members whose partitions change, so that their waiting
    polls check again.
    """

    group: str
    reply: Reply_co
    generation: int
    records: tuple[Record, ...] = ()
    notes: tuple[Note, ...] = ()
    woken: frozenset[str] = frozenset()


def apply(groups: Groups, decision: Decision[object]) -> list[Record]:
    """Apply a decision; returns what `undo` needs."""
    displaced = [replay(groups, record) for record in decision.records]
    if decision.notes and (group := groups.by_name.get(decision.group)) is not None:
        for said in decision.notes:
            if (presence := group.presences.get(said.member_id)) is not None:
                note(presence, said)
    return displaced


def undo(groups: Groups, displaced: Sequence[Record], now_ms: int) -> None:
    """Take back what could not be written; of several decisions the latest first.

    Positions in memory of the partitions concerned are forgotten: they are read again from the durable ones.
    """
    for record in reversed(displaced):
        replay(groups, record)
    for name in {record.group for record in displaced}:
        if (group := groups.by_name.get(name)) is not None:
            _forget_places(group, {record.key for record in displaced})
            _start_sessions(group, now_ms, anew=False)


def begin(groups: Groups, now_ms: int, life: int) -> None:
    """Start after loading. `life` grows with each process that owns the groups, so that answer numbers never repeat."""
    refresh(groups, now_ms)
    for group in groups.by_name.values():
        for presence in group.presences.values():
            presence.answer, presence.recalled = life << ANSWER_BITS, True


def refresh(groups: Groups, now_ms: int) -> None:
    """Give every member a fresh full session, as requests could not be received."""
    for name in groups.by_name:
        refresh_group(groups, name, now_ms)


def refresh_group(groups: Groups, name: str, now_ms: int) -> None:
    """Give every member of one group a fresh full session."""
    if (group := groups.by_name.get(name)) is not None:
        _start_sessions(group, now_ms, anew=True)


def record_liveness(groups: Groups, group: str, member_id: str, now_ms: int) -> None:
    """Extend a member's session: any request shows that it lives, even one that is refused."""
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
