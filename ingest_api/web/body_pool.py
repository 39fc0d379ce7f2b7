"""Decides which bodies may be in memory. Values in, values out: the time is an argument.

A body holds its received bytes, and asks for more room as more arrive. If there is none, it waits while that can help:

    share   Of an address that holds more than half while others ask, the newest bodies are refused, never its eldest.
    age     A body that is incomplete after the grace is refused when a younger one asks: to keep memory from others,
            a client has to send its bytes again and again.
    knot    If every body that holds memory waits, the youngest is refused: the eldest is always completed.

Announced bytes do not count until they arrive. A complete body is never refused: it is answered soon.
"""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from enum import Enum, auto
from typing import Final

#: Smallest IPv6 network that is assigned; its owner has all addresses in it.
_V6_PREFIX: Final = 64
#: Most waiting bodies: beside its held bytes, each has some more in the buffers of its connection.
MOST_WAITING: Final = 16


class Refused(Enum):
    FULL = auto()
    SHARE = auto()
    AGE = auto()


@dataclass(eq=False, slots=True)
class Room:
    """Memory of one body. `began` is the time of its first bytes, plus the time for which it waited since.

    It is `arriving` while its reader can be cancelled to give up the memory.
    """

    owner: str
    began: float
    held: int = 0
    wanted: int = 0
    arriving: bool = False
    waiting_since: float | None = None
    refused: Refused | None = None

    @property
    def waits(self) -> bool:
        return self.waiting_since is not None


class BodyPool:
    """Room for all bodies. Methods return the rooms granted after a wait, and the refused ones."""

    def __init__(self, most: int, grace_s: float) -> None:
        self._most = most
        self._grace_s = grace_s
        self._of_owner: dict[str, int] = {}
        # Rooms that hold bytes, in the order in which they began to.
        self._rooms: dict[Room, None] = {}
        self._waiting: dict[Room, None] = {}
        self.held = 0

    def has_room(self, size: int) -> bool:
        return self.held + size <= self._most

    def ask(self, room: Room, size: int, now: float) -> list[Room]:
        """Let `room` hold `size` bytes: now, later, or never. A room that holds nothing yet is refused, not queued."""
        if self.held + size - room.held <= self._most and not self._waiting:
            self._hold(room, size)
            return []
        room.wanted, room.waiting_since = size, now
        self._waiting[room] = None
        changed = self._settle(now)
        if room.waits and not room.held:
            self._refuse(room, Refused.FULL)
            changed.append(room)
        return changed

    def shrink(self, room: Room, size: int, now: float) -> list[Room]:
        """Reduce `room` to at most `size` bytes."""
        self._hold(room, min(size, room.held))
        return self._settle(now) if self._waiting else []

    def give_back(self, room: Room, now: float) -> list[Room]:
        """Free all of `room`, and end its wait."""
        self._waiting.pop(room, None)
        room.waiting_since = None
        return self.shrink(room, 0, now)

    def look(self, now: float) -> list[Room]:
        """Decide again later: a body may have passed its grace."""
        return self._settle(now)

    def give_up(self, room: Room, now: float) -> list[Room]:
        """Refuse a room that has waited for too long."""
        self._refuse(room, Refused.FULL)
        return [room, *self._settle(now)]

    def _settle(self, now: float) -> list[Room]:
        changed: list[Room] = []
        while True:
            changed += self._grant(now)
            if not self._waiting:
                return changed
            victims = next(filter(None, (self._plan_victims(room, now) for room in self._in_order())), None)
            if victims is None:
                if len(self._waiting) <= MOST_WAITING and not all(room.waits for room in self._rooms):
                    return changed
                victims = [(self._in_order()[-1], Refused.FULL)]
            for room, why in victims:
                self._refuse(room, why)
                changed.append(room)

    def _grant(self, now: float) -> list[Room]:
        served: list[Room] = []
        for room in self._in_order():
            if self.has_room(room.wanted - room.held) and not self._is_greedy(room):
                self._hold(room, room.wanted)
                if room.waiting_since is not None:
                    room.began += now - room.waiting_since
                room.waiting_since = None
                del self._waiting[room]
                served.append(room)
        return served

    def _in_order(self) -> list[Room]:
        """Waiting rooms, the eldest first."""
        return sorted(self._waiting, key=lambda room: room.began)

    def _is_greedy(self, room: Room) -> bool:
        """True if its owner would hold more than half while others wait. A single body may hold more."""
        would_hold = self._of_owner.get(room.owner, 0) + room.wanted - room.held
        if would_hold <= max(self._most // 2, room.wanted):
            return False
        return any(other.owner != room.owner for other in self._waiting)

    def _plan_victims(self, asking: Room, now: float) -> list[tuple[Room, Refused]]:
        """Choose bodies to refuse for `asking`; none if all candidates together would not be enough."""
        missing = self.held + asking.wanted - asking.held - self._most
        victims: list[tuple[Room, Refused]] = []
        if missing <= 0:
            return victims
        for room, why in self._candidates(asking, now):
            victims.append((room, why))
            missing -= room.held
            if missing <= 0:
                return victims
        return []

    def _candidates(self, asking: Room, now: float) -> list[tuple[Room, Refused]]:
        found: dict[Room, Refused] = {}
        there = [room for room in self._rooms if room is not asking]
        arriving = [room for room in there if room.arriving or room.waits]
        half, extra = self._most // 2, asking.wanted - asking.held
        if self._of_owner.get(asking.owner, 0) + extra <= half:
            for owner, size in self._of_owner.items():
                if size > half and owner != asking.owner:
                    found |= dict.fromkeys(self._beyond_half(owner, arriving), Refused.SHARE)
        if self._is_young(asking, now):
            for room in sorted(arriving, key=lambda room: room.began):
                if not room.waits and not self._is_young(room, now):
                    found.setdefault(room, Refused.AGE)
        return list(found.items())

    def _beyond_half(self, owner: str, arriving: list[Room]) -> list[Room]:
        """The newest bodies of an owner, until it holds no more than half; never its eldest."""
        above = self._of_owner[owner] - self._most // 2
        eldest = next(room for room in self._rooms if room.owner == owner)
        found: list[Room] = []
        for room in reversed(arriving):
            if room.owner == owner and room is not eldest and above > 0:
                found.append(room)
                above -= room.held
        return found

    def _is_young(self, room: Room, now: float) -> bool:
        return now - room.began < self._grace_s

    def _hold(self, room: Room, size: int) -> None:
        grown = size - room.held
        room.held = size
        self.held += grown
        of_owner = self._of_owner.get(room.owner, 0) + grown
        if of_owner:
            self._of_owner[room.owner] = of_owner
        else:
            self._of_owner.pop(room.owner, None)
        if size:
            self._rooms[room] = None
        else:
            self._rooms.pop(room, None)

    def _refuse(self, room: Room, why: Refused) -> None:
        """Refuse: its bytes no longer count; they are dropped as soon as its reader is cancelled."""
        self._waiting.pop(room, None)
        room.waiting_since, room.refused = None, why
        self._hold(room, 0)


def owner_of(host: str) -> str:
    """Owner of a body: the client's address, or its network for IPv6."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host
    if isinstance(address, ipaddress.IPv4Address):
        return host
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(ipaddress.ip_network((int(address), _V6_PREFIX), strict=False))
