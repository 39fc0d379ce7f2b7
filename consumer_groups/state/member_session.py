"""Session of a member, in memory only: its last requests, and how far it was given records.

All of it may be lost at any time; then records are delivered again, never skipped. It is changed by `note` (notes of a
decision) and by `replay` (places come and go with the partitions). It must not know why a decision was made. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

import msgspec

from consumer_groups.model.assignment import TopicPartition


class Position(msgspec.Struct):
    """Position of a member in one partition. None: not known, or nothing given yet.

    topic_id               the topic that all this belongs to: a later topic of the name starts over
    position               where to read next
    delivered              after the last record given since it owns the partition, or since its last seek there
    acked                  `delivered` at its last poll: it is done with everything before
    acked_position         `position` at its last poll
    delivered_before_seek  after the last record given before its last seek
    doubtful               it may have been given records that this process does not know of
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
        """Offset after what the member is done with, and whether that was delivered since its last seek."""
        since = self.delivered if came_back else self.acked
        if since is None and came_back:
            return self.delivered_before_seek, False
        return since, True

    def leaves_open(self, committed: int) -> bool:
        """Return whether something that was delivered is not committed."""
        return self.doubtful or max(self.delivered or 0, self.delivered_before_seek or 0) > committed


class Presence(msgspec.Struct):
    """Session state of a member. Times are None until the first request or `begin`: after loading nothing expires."""

    heard_at_ms: int | None = None
    polled_at_ms: int | None = None
    polling_until_ms: int | None = None
    keeps: bool = False
    """If true, a poll does not imply that it is done with what it was given."""
    committed_at_ms: int | None = None
    unsettled: bool = False
    """True if auto-commit may have something to commit."""
    answer: int = 0
    """Number of the last answer with records; numbers only rise, also over restarts."""
    came: int = 0
    """Number of the last answer that it reported as received."""
    took_back: bool = False
    """True if the last answer was taken back, and none was given since."""
    turn: TopicPartition | None = None
    """Partition read last: the next poll begins after it."""
    places: dict[TopicPartition, Position] = {}
    revoke_by_ms: dict[TopicPartition, int] = {}
    recalled: bool = False
    """True if an earlier process may have given it records; which ones is unknown until its next poll."""
    tried: tuple[Tried, ...] = ()
    """Records in hand: given to it, and not followed by another poll."""
    in_hand: bool = False
    """True if it reported itself that it has records in hand; an earlier process may have given them."""
    bereft: dict[TopicPartition, None] = {}
    """Partitions taken from it before it was done; until its next poll it cannot commit what it was given."""


class Tried(NamedTuple):
    """Records of an answer: everything from `first` to before `next_offset`; exactly one if it was a last try."""

    answer: int
    partition: TopicPartition
    topic_id: str
    first: int
    next_offset: int
    last_try: bool = False


class Heard(NamedTuple):
    """A sign of life. `begins`: max.poll.interval.ms counts from here."""

    member_id: str
    at_ms: int
    begins: bool = False


class Polling(NamedTuple):
    """A poll began. `lost`: the last answer never reached the member. `keeps`: it reports itself what it is done with.

    `left_out`: answer numbers to skip. `done`: the last answer of which it has nothing in hand, if it reports that;
    `in_hand`: it has received a later one.
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
    """Partitions just given to a member: nothing of them was delivered to it yet."""

    member_id: str
    partitions: tuple[TopicPartition, ...]


class Placed(NamedTuple):
    """New positions, as topic id and offset. `sought` if the member asked for them, `lost` as in `Polling`."""

    member_id: str
    positions: Mapping[TopicPartition, tuple[str, int]]
    sought: bool = False
    lost: bool = False


class PartitionLost(NamedTuple):
    """A partition taken from a member while something delivered from it was not committed."""

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
    """A member has nothing in hand any more: it reported so, or what it had is counted as a failed attempt."""

    member_id: str


Note = (
    Heard | Polling | Idle | Delivered | PartitionAssigned | Placed | PartitionLost | RevokeBy | AutoCommitted | Settled
)


def note(presence: Presence, said: Note) -> None:
    """Apply one note of a decision to a member's session."""
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
    if presence.came < presence.answer:  # otherwise the lost answer had no records
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
