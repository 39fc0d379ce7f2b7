"""A journal in a bucket whose store loses requests and answers, and lets some come late, and whose owners change.

What was acknowledged is found once and in order by every later life, until it was released; what was refused is never
found; whoever was replaced stores nothing any more.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest

from delta_log.journal.group_format import Frame, Place, checksum
from delta_log.journal.objects import ObjectJournal
from delta_log.model.errors import NotOwner, OutcomeUnknown, StorageRefused
from delta_log.records.payload_kinds import ROWS
from delta_log.stores import MemoryStore
from delta_log.stores.protocol import Blob

SEEDS = range(400)
STEPS = 60


class WeakStore(MemoryStore):
    """Of creations some are refused, and of some nobody learns what became of them, or only later."""

    def __init__(self, chance: random.Random) -> None:
        super().__init__()
        self.chance = chance
        self.trouble = 0.0
        self.late: list[tuple[str, bytes]] = []

    def create(self, path: str, data: Blob) -> bool:
        if self.chance.random() >= self.trouble:
            return super().create(path, data)
        what = self.chance.choice(["refused", "request lost", "answer lost", "late"])
        if what == "refused":
            raise StorageRefused(path, "the test says so")
        if what == "answer lost":
            super().create(path, data)
        if what == "late":
            self.late.append((path, bytes(data)))
        raise OutcomeUnknown(path, what)

    def deliver(self, everything: bool = False) -> None:
        while self.late and (everything or self.chance.random() < 0.5):
            path, data = self.late.pop(self.chance.randrange(len(self.late)))
            super().create(path, data)


@dataclass
class Owner:
    epoch: int
    journal: ObjectJournal
    replaced: bool = False
    #: told unknown, and nothing was acknowledged by this owner since
    doubtful: list[int] = field(default_factory=list)


class World:
    """Groups are told apart by their numbers, which are their payloads."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.store = WeakStore(self.chance)
        self.owners: list[Owner] = []
        self.acknowledged: list[int] = []
        self.refused: set[int] = set()
        self.voided: set[int] = set()
        self.released: set[int] = set()
        self.places: dict[int, Place] = {}
        self.told = 0

    def open(self) -> None:
        """A newcomer finds all that counts. What came late came by now: no request is under way for so long."""
        self.store.deliver(everything=True)
        self.store.trouble, trouble = 0.0, self.store.trouble
        epoch = len(self.owners) + 1
        journal = ObjectJournal(self.store, epoch, newest_epoch=lambda: len(self.owners), linger_ms=0)
        recovered = journal.recover()
        assert (recovered.lost, recovered.damage, recovered.untraceable) == ([], [], [])
        found = [int(journal.read(item.place)) for item in recovered.frames]
        assert len(found) == len(set(found))
        assert [each for each in self.acknowledged if each not in self.released] == [
            each for each in found if each in self.acknowledged and each not in self.released
        ]
        assert not self.refused & set(found)
        assert not self.voided & set(found)
        for item, number in zip(recovered.frames, found, strict=True):
            self.places[number] = item.place
            if number not in self.acknowledged:
                self.acknowledged.append(number)  # its new owner shows it to everybody
        self.acknowledged.sort()
        for owner in self.owners:
            owner.replaced = True
        self.owners.append(Owner(epoch, journal))
        self.store.trouble = trouble

    def append(self) -> None:
        owner = self.chance.choice(self.owners[-3:])
        self.told += 1
        number = self.told
        payload = b"%d" % number
        frame = Frame(ROWS, "t", "id", 0, number, 1, owner.epoch, len(payload), checksum(payload), 5)
        try:
            (place,) = owner.journal.append([frame], [payload])
        except NotOwner:
            assert owner.replaced
            self.refused.add(number)
        except StorageRefused:
            self.refused.add(number)
        except OutcomeUnknown:
            owner.doubtful.append(number)
        else:
            assert not owner.replaced, "a replaced owner acknowledged something"
            self.acknowledged.append(number)
            self.places[number] = place
            self.voided.update(owner.doubtful)
            owner.doubtful.clear()

    def release(self) -> None:
        owner = self.owners[-1]
        for segment in owner.journal.segments():
            if self.chance.random() < 0.3:
                owner.journal.release(segment)
                self.released.update(
                    number for number, place in self.places.items() if (place.epoch, place.segment) == segment
                )

    def close(self) -> None:
        for owner in self.owners:
            owner.journal.close(empty=False)


def play(
    seed: int, steps: Sequence[str] = ("open", "append", "append", "append", "append", "release", "late")
) -> World:
    world = World(seed)
    world.open()
    try:
        world.store.trouble = world.chance.choice([0.0, 0.2, 0.5])
        for _ in range(STEPS):
            match world.chance.choice(steps):
                case "open":
                    if len(world.owners) < 8:
                        world.open()
                case "append":
                    world.append()
                case "release":
                    world.release()
                case _:
                    world.store.deliver()
        world.open()
    finally:
        world.close()
    return world


@pytest.mark.parametrize("of", range(8))
def test_what_was_acknowledged_is_found_once_and_whoever_was_replaced_stores_nothing(of: int):
    for seed in SEEDS[of::8]:
        try:
            play(seed)
        except BaseException as error:
            error.add_note(f"seed {seed}")
            raise


def test_the_trouble_happens():
    """All that the laws are about comes about in these plays."""
    worlds = [play(seed) for seed in range(40)]
    assert sum(len(world.acknowledged) for world in worlds) > 200
    assert sum(len(world.voided) for world in worlds) > 20
    assert sum(len(world.refused) for world in worlds) > 50
    assert sum(len(world.released) for world in worlds) > 50
