"""A member that gives up every record that it is given, out of order; copies and what is passed have to agree.

A process of its own, when it is run: dead_letter_turns.py <root> <round> <step> <hit>, as `tests.support.killing`
starts it. It reports ["given up", offset] for each record that is surely a dead letter, and dies at that hit of a step.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import threading

from consumer_groups.coordinator.coordinator import Coordinator
from consumer_groups.decisions.dead_lettering import GiveUp, Spot
from consumer_groups.model.assignment import TopicPartition
from delta_log import Log, Record, Settings
from tests.support.coordinating import coordinating, join, poll
from tests.support.kill_probe import Probe
from tests.support.logs import everything

SETTINGS = Settings(upkeep=False, segment_bytes=16 * 1024)
ONE = TopicPartition("t", 0)
DEAD = "g.dlq"


class Broken(AssertionError):
    """A record is copied and not passed, or passed and not copied, or copied twice, or was promised and is neither."""


class Turns:
    """`promised` are the offsets that were said to be given up."""

    def __init__(self, log: Log, groups: Coordinator) -> None:
        self.log = log
        self.groups = groups
        self.promised: set[int] = set()

    @classmethod
    async def begin(cls, log: Log, groups: Coordinator) -> Turns:
        for topic in ("t", DEAD):
            if topic not in log.topics():
                log.create_topic(topic)
        await groups.topics_changed()
        if groups.peek("g", "ann") is None:
            await join(groups, "ann", "t", auto_commit_enable=False)
        return cls(log, groups)

    async def take(self) -> list[int]:
        """Four records: first those behind, which are marked, then those that are next in line."""
        first = (await self.log.append_async("t", [Record(b"x" * 50) for _ in range(4)])).offsets()[0]
        await poll(self.groups, "ann")
        given_up: list[int] = []
        for some in ((first + 2, first + 3), (first,), (first + 1,)):
            reasons = {Spot(ONE, offset): "bad" for offset in some}
            await self.groups.give_up("g", GiveUp("ann", reasons))
            self.promised.update(some)
            given_up += some
        return given_up


def check_letters(log: Log, groups: Coordinator, promised: set[int]) -> None:
    known = groups._durable.groups.get("g")
    topic_id = log.describe_topic("t").id if "t" in log.topics() else ""
    passed = set(range(known.committed(topic_id, 0) or 0)) | set(known.skips.get((topic_id, 0), ()))
    letters = [dict(record.headers) for record in everything(log, DEAD)] if DEAD in log.topics() else []
    copied = [int(said["lakelog.dlq.offset"] or b"") for said in letters]
    if len(copied) != len(set(copied)):
        raise Broken(f"copied twice: {sorted(copied)}")
    if set(copied) != passed:
        raise Broken(f"copied and not passed {set(copied) - passed}, passed and not copied {passed - set(copied)}")
    if not promised <= passed:
        raise Broken(f"promised, and not there: {promised - passed}")


def main(root: str, _number: str, step: str, hit: str) -> None:
    with Log.open(root, settings=SETTINGS, probe=Probe(step, int(hit))) as log:

        async def work() -> None:
            async with coordinating(log) as groups:
                turns = await Turns.begin(log, groups)
                while True:
                    for offset in await turns.take():
                        os.write(1, json.dumps(["given up", offset]).encode() + b"\n")
                    await asyncio.to_thread(log.flush)

        threading.Thread(target=lambda: asyncio.run(work()), daemon=True).start()
        sys.stdin.read(1)


if __name__ == "__main__":
    main(*sys.argv[1:])
