"""A log whose disk falls ill and gets well again and again, played from seeds, with kills at any moment in between."""

from __future__ import annotations

import errno
import os
import random
from pathlib import Path

import pytest

from delta_log import Log, ProducerStamp, Record
from delta_log.model.errors import LakelogError, NotAvailable, OutcomeUnknown
from delta_log.operations import check
from delta_log.runtime import disk_room, fullness
from tests.support.failing_disk import FailingDisk
from tests.support.http_ledger import Broken
from tests.support.logs import crash, eventually, everything, replace_settings

#: LAKELOG_SICK_SEEDS=2000 for a long run; LAKELOG_SEED for others.
SEEDS = int(os.environ.get("LAKELOG_SICK_SEEDS", "12"))
FIRST = int(os.environ.get("LAKELOG_SEED", "0"))
STEPS = 60
SETTINGS = replace_settings(segment_bytes=8192, tail_bytes=0)
CALLS = (
    *("create", "write", "write_all", "half", "sync", "sync_data", "truncate"),
    *("link", "rename", "unlink", "sync_directory"),
)
CODES = (errno.EIO, errno.ENOSPC, errno.EDQUOT, errno.ESTALE)
#: With the others a system says no before it does anything.
CODES_AFTER = (errno.EIO, errno.ESTALE)
STEP = (
    *("append",) * 6,
    *("numbered",) * 4,
    *("ill", "ill", "ill", "mend", "heal", "kill", "flush", "look"),
)


class World:
    """One root over the lives of its logs, and all that was promised of it."""

    def __init__(self, root: Path, seed: int) -> None:
        self.chance = random.Random(seed)
        self.root = root
        self.disk = FailingDisk()
        self.count = self.sequence = 0
        self.stored: dict[int, bytes] = {}
        self.refused: set[bytes] = set()
        self.pending: bytes | None = None
        self.happened: set[str] = set()
        self.log = Log.open(root, settings=SETTINGS, disk=self.disk)
        self.log.create_topic("orders", config={"lakelog.commit.interval.ms": 100})

    def play(self) -> None:
        for _ in range(STEPS):
            getattr(self, self.chance.choice(STEP))()
        self.heal()
        self.kill()
        self.log.close()
        found = check(self.root)
        if found.exit_code != 0:
            raise Broken(f"check found {found}")

    def append(self) -> None:
        value = self._next_value()
        try:
            (offset,) = self.log.append("orders", [Record(value)]).offsets()
        except OutcomeUnknown:
            self.happened.add("unknown")
        except NotAvailable:
            self.refused.add(value)
        else:
            self._store(offset, value)

    def numbered(self) -> None:
        """The same request until it is known to be stored."""
        value = self.pending or self._next_value()
        self.pending = value
        stamp = ProducerStamp("p", 0, self.sequence)
        try:
            (offset,) = self.log.append("orders", [Record(value)], producer=stamp).offsets()
        except (OutcomeUnknown, NotAvailable):
            return
        self._store(offset, value)
        self.sequence, self.pending = self.sequence + 1, None

    def ill(self) -> None:
        calls = self.chance.sample(CALLS, self.chance.randint(1, 4))
        after = self.chance.random() < 0.2 and "half" not in calls
        self.disk.fail(*calls, code=self.chance.choice(CODES_AFTER if after else CODES), after=after)
        if self.log._running.journal.doubt is not None:
            self.happened.add("ill again amid a doubt")

    def mend(self) -> None:
        self.disk.mend()

    def heal(self) -> None:
        """Well for so long that everything goes on."""
        self.disk.mend()
        if self.log._running.journal.doubt is not None:
            self.happened.add("went on by itself")
        eventually(lambda: self.log._running.journal.doubt is None, "a journal that goes on")
        eventually(lambda: not self.log._running.writer.room.full, "room on the disk")
        before = len(self.stored)
        self.append()
        self.numbered()
        if len(self.stored) != before + 2:
            raise Broken("a log whose disk is well takes nothing")
        self.look()

    def kill(self) -> None:
        if self.log._running.journal.doubt is not None:
            self.happened.add("killed amid a doubt")
        crash(self.log)
        self.disk.mend()
        self.log = Log.open(self.root, settings=SETTINGS, disk=self.disk)
        self.look()

    def flush(self) -> None:
        try:
            self.log.flush()
        except LakelogError:
            self.happened.add("a commit failed")

    def look(self) -> None:
        held = {record.offset: record.value for record in everything(self.log, "orders")}
        values = list(held.values())
        if {offset: held.get(offset) for offset in self.stored} != self.stored:
            raise Broken(f"{self.stored} was acknowledged, and there is {held}")
        if self.refused.intersection(value for value in values if value is not None):
            raise Broken("what was refused is there")
        if sorted(held) != list(range(len(held))) or len(set(values)) != len(values):
            raise Broken(f"offsets have gaps, or a value is there twice: {held}")
        if self.log.statistics().closed:
            raise Broken(f"a topic is closed: {self.log.statistics().closed}")

    def _store(self, offset: int, value: bytes) -> None:
        if offset in self.stored:
            raise Broken(f"offset {offset} was given to {self.stored[offset]!r} and to {value!r}")
        self.stored[offset] = value

    def _next_value(self) -> bytes:
        self.count += 1
        return b"%d." % self.count + bytes(self.chance.choice((1, 300, 3000)))


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """A disk without room is looked at, and believed to have some again, as often as a play of a second needs."""
    monkeypatch.setattr(fullness, "_QUIET_S", 0.02)
    monkeypatch.setattr(fullness, "_TRIED_EVERY_S", 0.02)
    monkeypatch.setattr(disk_room, "LOOKS_EVERY_S", 0.02)


@pytest.mark.parametrize("seed", range(FIRST, FIRST + SEEDS))
def test_whatever_a_disk_does_and_when_it_ends_all_promises_are_kept(tmp_path: Path, seed: int):
    world = World(tmp_path / "root", seed)
    try:
        world.play()
    finally:
        world.disk.mend()
        crash(world.log)


def test_the_seeds_come_to_everything_that_they_are_for(tmp_path: Path):
    happened: set[str] = set()
    wanted = {"unknown", "ill again amid a doubt", "went on by itself", "killed amid a doubt", "a commit failed"}
    for seed in range(50):
        world = World(tmp_path / str(seed), seed)
        world.play()
        happened |= world.happened
        if happened >= wanted:
            return
    raise AssertionError(f"{wanted - happened} never came up")
