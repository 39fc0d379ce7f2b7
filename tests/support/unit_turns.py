"""Units over two topics and a ledger, numbered; where a part of one is there and another is not, they disagree.

A process of its own, when it is run: unit_turns.py <root> <round> <step> <hit>, as `tests.support.killing` starts it.
It reports ["kept", number, offsets] for each unit that is durable, and dies at that hit of the step.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import threading

from delta_log import Ledger, Log, Record, Settings
from tests.support.keyed_rows import TABLES, mark, reader
from tests.support.kill_probe import Probe
from tests.support.logs import values_of

SETTINGS = Settings(upkeep=False, segment_bytes=16 * 1024)
PLACES = (("t", 0), ("u", 0), ("u", 1))
#: So many units of a loop are on their way at once.
AHEAD = 4


class Broken(AssertionError):
    """A unit is there by half, or one that was promised is not there."""


class Turns:
    """The way in: `next` is the number of the next unit."""

    def __init__(self, log: Log) -> None:
        for topic, partitions in (("t", 1), ("u", 2)):
            if topic not in log.topics():
                log.create_topic(topic, partitions)
        self.log = log
        self.ledger = log.open_ledger(TABLES)
        self.next = _next(self.ledger)

    def take(self) -> tuple[int, list[int]]:
        """One unit; its number and its offsets."""
        number, self.next = self.next, self.next + 1
        waiting = [self.log.prepare(topic, self._records(number, at)) for topic, at in PLACES]
        answers = self.ledger.append([mark("unit", 0, number), reader("unit", number)], waiting)
        return number, [answer.offsets()[0] for answer in answers]

    async def take_ahead(self) -> list[tuple[int, list[int]]]:
        """Some at once: each is queued up before those ahead of it are durable."""
        numbers = range(self.next, self.next + AHEAD)
        self.next += AHEAD
        waiting: list[asyncio.Future[object]] = []
        for number in numbers:
            unit = [await self.log.prepare_async(topic, self._records(number, at)) for topic, at in PLACES]
            rows = [mark("unit", 0, number), reader("unit", number)]
            waiting.append(self.ledger.queue_up(rows, unit))  # type: ignore[arg-type]
        answers = await asyncio.gather(*waiting)
        return [(n, [each.offsets()[0] for each in given]) for n, given in zip(numbers, answers, strict=True)]

    def _records(self, number: int, partition: int) -> list[Record]:
        return [Record(b"%d" % number, partition=partition)]


def _next(ledger: Ledger) -> int:
    return next((row[2] + 1 for row in ledger.load("__marks") if row[0] == "unit"), 0)


def check_units(log: Log, promised: int) -> int:
    """How many units are there: each whole, in order, and all that were promised."""
    ledger = log.open_ledger(TABLES)
    count = _next(ledger)
    if count < promised:
        raise Broken(f"{promised} units were promised, {count} are there")
    turns = [row[3] for row in ledger.load("__readers") if row[0] == "unit"]
    if turns != ([count - 1] if count else []):
        raise Broken(f"one table says {count} units, the other {turns}")
    for topic, partition in PLACES:
        found = values_of(log, topic, partition) if topic in log.topics() else []
        if found != [b"%d" % number for number in range(count)]:
            raise Broken(f"{topic}-{partition} has {len(found)} records of {count} units: {found[-3:]}")
    return count


def main(root: str, _number: str, step: str, hit: str) -> None:
    with Log.open(root, settings=SETTINGS, probe=Probe(step, int(hit))) as log:
        turns = Turns(log)

        def report(number: int, offsets: list[int]) -> None:
            os.write(1, json.dumps(["kept", number, offsets]).encode() + b"\n")

        def work() -> None:
            while True:
                report(*turns.take())
                for number, offsets in asyncio.run(turns.take_ahead()):
                    report(number, offsets)
                log.flush()

        threading.Thread(target=work, daemon=True).start()
        sys.stdin.read(1)


if __name__ == "__main__":
    main(*sys.argv[1:])
