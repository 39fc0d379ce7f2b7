"""The power goes at any moment: what a ledger promised is there, whole units of it, and nothing that never was."""

from __future__ import annotations

import asyncio
import random
import shutil
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from delta_log import Ledger, Log, Record, Settings
from delta_log.delta.write_checkpoint import write_checkpoint
from delta_log.model.errors import LakelogError
from tests.support.cuts import CUTS, SEED
from tests.support.keyed_rows import TABLES, compact, live_of
from tests.support.logs import crash, values_of
from tests.support.marking import check_turns, turns_of, unit
from tests.support.powercut import PowerCut
from tests.support.recording_disk import Killed, RecordingDisk

SETTINGS = Settings(upkeep=False, segment_bytes=4096)


@dataclass
class Work:
    """Turns of a few names, beside records, and all that changes the tables; `promised` is by the steps taken."""

    disk: RecordingDisk
    promised: list[tuple[int, str, int]] = field(default_factory=list)

    def run(self, log: Log, turns: int, seed: int) -> None:
        chance = random.Random(seed)
        ledger = log.open_ledger(TABLES)
        if "t" not in log.topics():
            log.create_topic("t")
        for number in range(turns):
            self.say(log, ledger, chance.choice(["ann", "bob"]), chance.randint(1, 4))
            for (every, at), duty in self._duties(log).items():
                if number % every == at:
                    duty()

    def say(self, log: Log, ledger: Ledger, name: str, count: int) -> None:
        """One turn in this thread, or several at once that share groups with a record."""
        turn = turns_of(ledger).get(name, 0)
        if count == 1:
            ledger.append(unit(name, turn + 1))
        else:

            async def work() -> None:
                waiting = [ledger.queue_up(unit(name, turn + number)) for number in range(1, count + 1)]
                await asyncio.gather(log.append_async("t", [Record(b"%d" % log.offsets("t", 0).end_offset)]), *waiting)

            asyncio.run(work())
        self.promised.append((len(self.disk.steps), name, turn + count))
        self.promised.append((len(self.disk.steps), "t", log.offsets("t", 0).end_offset))

    def _duties(self, log: Log) -> dict[tuple[int, int], Callable[[], object]]:
        return {
            (3, 1): log.flush,
            (7, 3): lambda: [compact(log, table.name) for table in TABLES],
            (11, 5): lambda: write_checkpoint(live_of(log, "__marks").table),
            (13, 7): log.run_upkeep,
        }

    def losses(self, place: Path, *, cuts: int, seed: int, first: int = 0) -> list[str]:
        """What is broken after a cut at each of so many moments; half of them leave a part of what was not synced."""
        chance, total = random.Random(seed), len(self.disk.steps)
        moments = sorted(chance.sample(range(first, total + 1), min(cuts, total + 1 - first)))
        cut, broken = PowerCut(self.disk.steps), list[str]()
        for number, moment in enumerate(moments):
            cut.go_to(moment)
            cut.survivors(place / "left", random.Random(moment) if number % 2 else None)
            try:
                self._check(place / "left", moment)
            except Exception as error:  # noqa: BLE001 - whatever stops a log from being read is a loss
                broken.append(f"seed {seed}, cut at step {moment} of {total}: {error!r}")
            shutil.rmtree(place / "left")
        return broken

    def _check(self, left: Path, moment: int) -> None:
        promised = {name: count for at, name, count in self.promised if at <= moment}
        records = promised.pop("t", 0)
        for _ in range(2):
            with Log.open(left, settings=SETTINGS) as log:
                ledger = log.open_ledger(TABLES)
                promised = check_turns(ledger, promised)
                values = values_of(log, "t") if "t" in log.topics() else []
                assert values == [b"%d" % number for number in range(len(values))]
                assert len(values) >= records
                ledger.append(unit("after the cut", promised.get("after the cut", 0) + 1))
                promised["after the cut"] = promised.get("after the cut", 0) + 1


def record(disk: RecordingDisk, turns: int, seed: int) -> Work:
    work = Work(disk)
    with Log.open(disk.root, settings=SETTINGS, disk=disk) as log:
        work.run(log, turns, seed)
    return work


def test_nothing_that_was_promised_is_lost_when_the_power_goes(tmp_path: Path):
    work = record(RecordingDisk(tmp_path / "root"), 40, SEED)
    assert work.losses(tmp_path, cuts=CUTS, seed=SEED) == []


@pytest.mark.parametrize("life", range(2))
def test_nothing_is_lost_when_the_power_goes_after_a_kill(tmp_path: Path, life: int):
    """What a killed life left unsynced lies in the page cache: the next one finds it, and must not rely on it."""
    chance, disk = random.Random(SEED + life), RecordingDisk(tmp_path / "root")
    work, first = Work(disk), 0
    for number in range(3):
        disk.kill_at = len(disk.steps) + chance.randint(80, 300)
        log = Log.open(disk.root, settings=SETTINGS, disk=disk)
        with suppress(Killed, LakelogError):
            work.run(log, 20, SEED + number)
        crash(log)
        disk.kill_at, first = None, len(disk.steps)
    with Log.open(disk.root, settings=SETTINGS, disk=disk) as log:
        work.run(log, 5, SEED)
    assert work.losses(tmp_path, cuts=CUTS // 3, seed=SEED, first=first) == []


class NeverSyncsTheJournal(RecordingDisk):
    def sync_data(self, fd: int) -> None:
        """Acknowledged all the same."""


class NeverSyncsFiles(RecordingDisk):
    def sync(self, fd: int) -> None:
        """A name without content."""

    def sync_data(self, fd: int) -> None:
        super().sync(fd)


class ForgetsTheTables(RecordingDisk):
    def sync_directory(self, path: str) -> None:
        if not path.endswith(("__marks", "__readers")):
            super().sync_directory(path)


@pytest.mark.parametrize("broken", [NeverSyncsTheJournal, NeverSyncsFiles, ForgetsTheTables])
def test_a_power_cut_shows_the_loss_when_the_disk(tmp_path: Path, broken: type[RecordingDisk]):
    work = record(broken(tmp_path / "root"), 20, SEED)
    assert work.losses(tmp_path, cuts=24, seed=SEED) != []
