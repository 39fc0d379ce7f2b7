"""What is known of a member in memory alone: when it was heard of, and how far it was given records.

All of it may be lost at any time; then records are given again, never fewer. Changed by `note` (what a decision
noted) and by `replay` (places come and go with the partitions). It must not know why a decision was made. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

import msgspec

from consumer_groups.model.assignment import TopicPartition


class Position(msgspec.Struct):
    """How far a member was given one partition. What is None is not known, or was not given yet.

    topic_id   of which all this is true: a later topic of the name begins anew
    position   where to read next
    delivered  behind the last record that it was given since it owns the partition, or since it last sought there
    settled    as `delivered`, when it last came back for more: it is done with what is before
    before     as `position`, when it last came back for more
    earlier    behind the last record that it was given before it last sought
    doubtful   it may have been given records that this process does not know of
    """

    topic_id: str = ""
    position: int | None = None
    delivered: int | None = None
    acked: int | None = None
    acked_position: int | None = None
    delivered_before_seek: int | None = None
    sought: bool = False
    doubtful: bool = True

    def done(self, *, came_back: bool) -> tuple[int | None, bool]:
        """Behind what the member is done with, and whether that was given to it since it last sought."""
        since = self.delivered if came_back else self.acked
        if since is None and came_back:
            return self.delivered_before_seek, False
        return since, True

    def leaves_open(self, committed: int) -> bool:
        """Whether something that was delivered is not committed."""
        return self.doubtful or max(self.delivered or 0, self.delivered_before_seek or 0) > committed


class Presence(msgspec.Struct):
    """Times are None until somebody says when it is: what has just been loaded never expires."""

    heard_at_ms: int | None = None
    polled_at_ms: int | None = None
    polling_until_ms: int | None = None
    keeps: bool = False
    """Whether that it polls does not say that it is done with what it was given."""
    committed_at_ms: int | None = None
    unsettled: bool = False
    """Whether auto-commit may have something to commit."""
    answer: int = 0
    """The number of the last answer with records; numbers only rise, also over restarts."""
    came: int = 0
    """That of the last that it said to have received."""
    took_back: bool = False
    """Whether the last answer was taken back, and none was given since."""
    turn: TopicPartition | None = None
    """What was read last: the next poll begins behind it."""
    places: dict[TopicPartition, Position] = {}
    revoke_by_ms: dict[TopicPartition, int] = {}
    recalled: bool = False
    """Whether an earlier process may have given it records: until it comes back for more, nobody knows which."""
    tried: tuple[Tried, ...] = ()
    """What it has in hand: what it was given and did not come back from."""
    in_hand: bool = False
    """Whether it said so itself, of answers that an earlier process may have given."""
    bereft: dict[TopicPartition, None] = {}
    """What was taken from it before it was done; until it comes back for more, it cannot commit what it was given."""


class Tried(NamedTuple):
    """Records that an answer held: everything from `first` to before `next_offset`; one alone, if it was a last try."""

    answer: int
    partition: TopicPartition
    topic_id: str
    first: int
    next_offset: int
    last_try: bool = False


class Heard(NamedTuple):
    """It lives. `begins`: its time between two polls counts from here."""

    member_id: str
    at_ms: int
    begins: bool = False


class Polling(NamedTuple):
    """It came back for more. `lost`: the last answer never reached it. `keeps`: it says itself what it is done with.

    So many numbers of answers are `left_out`. `done` is the last answer of which it has nothing in hand, if it says so;
    `in_hand` whether there is a later one that it received.
    """

    member_id: str
    at_ms: int
    until_ms: int
    lost: bool = False
    keeps: bool = False
    left_out: int = 0
    done: int | None = None
    in_hand: bool = False


class Idle(NamedTuple):
    """A poll ended without records, or an answer with them did not arrive (`lost`)."""

    member_id: str
    at_ms: int | None
    lost: bool = False


class Delivered(NamedTuple):
    member_id: str
    at_ms: int
    answer: int
    next_offsets: Mapping[TopicPartition, int]
    tried: tuple[Tried, ...] = ()


class PartitionAssigned(NamedTuple):
    """It was given these just now, so nothing of them was delivered to it."""

    member_id: str
    partitions: tuple[TopicPartition, ...]


class Placed(NamedTuple):
    """Where to read on, by topic id and offset. `sought` if it asked for that itself, `lost` as above."""

    member_id: str
    positions: Mapping[TopicPartition, tuple[str, int]]
    sought: bool = False
    lost: bool = False


class PartitionLost(NamedTuple):
    """This was taken from it while something that it was given was not committed."""

    member_id: str
    partition: TopicPartition


class RevokeBy(NamedTuple):
    member_id: str
    partitions: tuple[TopicPartition, ...]
    at_ms: int


class AutoCommitted(NamedTuple):
    member_id: str
    at_ms: int


class Settled(NamedTuple):
    """It has nothing in hand any more: it said so, or what it had is counted as tried in vain."""

    member_id: str


Note = (
    Heard | Polling | Idle | Delivered | PartitionAssigned | Placed | PartitionLost | RevokeBy | AutoCommitted | Settled
)


def note(presence: Presence, said: Note) -> None:
    """Remember one thing that a decision noted of a member."""
    _REMEMBER[type(said)](presence, said)


def _note_heard(presence: Presence, said: Heard) -> None:
    presence.heard_at_ms = said.at_ms
    if said.begins or presence.polled_at_ms is None:
        presence.polled_at_ms = said.at_ms


def _note_idle(presence: Presence, said: Idle) -> None:
    presence.polling_until_ms = None
    if said.at_ms is not None:
        presence.heard_at_ms = presence.polled_at_ms = said.at_ms
    if said.lost:
        _take_answer_back(presence)


def _note_gained(presence: Presence, said: PartitionAssigned) -> None:
    for partition in said.partitions:
        if (place := presence.places.get(partition)) is not None:
            place.doubtful = False


def _note_placed(presence: Presence, said: Placed) -> None:
    if said.lost:
        _take_answer_back(presence)
    for partition, (topic_id, position) in said.positions.items():
        place = presence.places.get(partition)
        if place is None or place.topic_id not in ("", topic_id):
            place = presence.places[partition] = Position()
        place.topic_id = topic_id
        _put(place, position, sought=said.sought)


def _note_bereft(presence: Presence, said: PartitionLost) -> None:
    presence.bereft[said.partition] = None


def _note_revocation(presence: Presence, said: RevokeBy) -> None:
    presence.revoke_by_ms |= dict.fromkeys(said.partitions, said.at_ms)


def _note_auto_commit(presence: Presence, said: AutoCommitted) -> None:
    presence.committed_at_ms, presence.unsettled = said.at_ms, False


def _note_settled(presence: Presence, _: Settled) -> None:
    presence.tried = ()


def _note_polling(presence: Presence, said: Polling) -> None:
    presence.heard_at_ms = presence.polled_at_ms = said.at_ms
    presence.polling_until_ms, presence.keeps = said.until_ms, said.keeps
    presence.bereft.clear()
    presence.recalled = False
    if presence.committed_at_ms is None:
        presence.committed_at_ms = said.at_ms
    if said.lost:
        _take_answer_back(presence)
    else:
        presence.came, presence.took_back = presence.answer, False
    presence.tried = tuple(each for each in presence.tried if said.done is not None and each.answer > said.done)
    presence.in_hand = said.in_hand
    presence.answer += said.left_out
    for place in presence.places.values():
        place.acked_position, place.doubtful = place.position, place.doubtful and said.keeps
        if place.acked != place.delivered:
            place.acked = place.delivered
            presence.unsettled = True


def _take_answer_back(presence: Presence) -> None:
    if presence.came < presence.answer:  # else it is one without records that did not arrive
        presence.tried = tuple(each for each in presence.tried if each.answer != presence.answer)
    for place in presence.places.values():
        if place.delivered != place.acked:
            place.position, place.delivered = place.acked_position, place.acked
            presence.took_back = True


def _note_delivered(presence: Presence, said: Delivered) -> None:
    presence.heard_at_ms = presence.polled_at_ms = said.at_ms
    presence.polling_until_ms = None
    presence.answer, presence.took_back = said.answer, False
    presence.tried += said.tried
    for partition, next_offset in said.next_offsets.items():
        place = presence.places[partition]
        place.position = place.delivered = next_offset
        presence.turn = partition


def _put(place: Position, position: int, *, sought: bool) -> None:
    place.position = position
    if not sought:
        return
    if place.delivered is not None:
        place.delivered_before_seek = max(place.delivered, place.delivered_before_seek or 0)
    place.delivered = place.acked = place.acked_position = None
    place.sought = True


_REMEMBER: Final[dict[type[Note], Callable[[Presence, Any], None]]] = {
    Heard: _note_heard,
    Polling: _note_polling,
    Idle: _note_idle,
    Delivered: _note_delivered,
    PartitionAssigned: _note_gained,
    Placed: _note_placed,
    PartitionLost: _note_bereft,
    RevokeBy: _note_revocation,
    AutoCommitted: _note_auto_commit,
    Settled: _note_settled,
}
