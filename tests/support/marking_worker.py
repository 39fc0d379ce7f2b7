"""A process that says all it can to a ledger, beside records, until it is killed, and reports what it was promised.

marking_worker.py <root> <round> <step> <hit>     as `tests.support.killing` starts it; it dies at that hit of the step

    ["kept", name, turn]      so many turns of a name are durable
    ["acked", offset, value]  of a record
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import threading
from collections import deque
from collections.abc import Callable

from delta_log import Ledger, Log, Record, Settings
from delta_log.maintenance import background as upkeep
from delta_log.maintenance import history as housekeeping
from delta_log.maintenance.compaction import keyed_files as ledger_compaction
from delta_log.topics import catalog
from tests.support.keyed_rows import TABLES
from tests.support.kill_probe import Probe
from tests.support.marking import turns_of, unit

#: So many units of a loop are on their way at once: each was decided when those before it were not durable.
AHEAD = 8
#: The load keeps step with the tables, so that every step is come to soon on any machine.
UNITS_A_TURN = 30


class Worker:
    def __init__(self, log: Log, ledger: Ledger) -> None:
        self.log = log
        self.ledger = ledger
        self.turns = turns_of(ledger)
        self._permits = threading.Semaphore(UNITS_A_TURN)

    def report(self, *event: object) -> None:
        os.write(1, json.dumps(event).encode() + b"\n")

    def begin(self) -> None:
        """The first turn of all makes the tables: a step that is come to behind it finds something to lose."""
        turn = self.turns.get("first", 0) + 1
        self.ledger.append(unit("first", turn))
        self.report("kept", "first", turn)

    def append(self, name: str) -> None:
        turn = self.turns.get(name, 0)
        while True:
            self._permits.acquire()
            turn += 1
            self.ledger.append(unit(name, turn))
            self.report("kept", name, turn)

    async def decide_ahead(self, name: str) -> None:
        turn, waiting = self.turns.get(name, 0), deque[asyncio.Future[None]]()
        while True:
            turn += 1
            while not self._permits.acquire(blocking=False):  # noqa: ASYNC110 - threads give them out
                await asyncio.sleep(0.001)
            waiting.append(self.ledger.queue_up(unit(name, turn)))
            if len(waiting) == AHEAD:
                await waiting.popleft()
                self.report("kept", name, turn - AHEAD + 1)

    def record(self) -> None:
        end = self.log.offsets("t", 0).end_offset
        while True:
            self._permits.acquire()
            (offset,) = self.log.append("t", [Record(b"%d" % end)]).offsets()
            self.report("acked", offset, end)
            end += 1

    def operate(self) -> None:
        while True:
            self._permits.release(UNITS_A_TURN)
            self.log.flush()
            self.log.run_upkeep()


def keep_doing(what: Callable[[], object]) -> None:
    """A thread's work; a failure is the end of the process, with its reason for all to see."""

    def run() -> None:
        try:
            what()
        except BaseException as error:  # noqa: BLE001 - to be seen by the parent
            sys.stderr.write(f"failed: {error!r}\n")
            os._exit(1)

    threading.Thread(target=run, daemon=True).start()


def main(root: str, _number: str, step: str, hit: str) -> None:
    housekeeping.CHECKPOINT_EVERY = 5  # type: ignore[misc]
    upkeep.CLEAN_EVERY_S = 0.0  # type: ignore[misc]
    ledger_compaction.KEPT_FILES = 2  # type: ignore[misc]
    catalog._LEDGER_CONFIG = {"lakelog.history.commits": 100, "file.delete.delay.ms": 0}  # type: ignore[misc]
    with Log.open(root, settings=Settings(upkeep=False, segment_bytes=64 * 1024), probe=Probe(step, int(hit))) as log:
        if "t" not in log.topics():
            log.create_topic("t")
        worker = Worker(log, log.open_ledger(TABLES))
        worker.begin()
        keep_doing(lambda: worker.append("one"))
        keep_doing(lambda: worker.append("two"))
        keep_doing(lambda: asyncio.run(worker.decide_ahead("loop")))
        keep_doing(worker.record)
        keep_doing(worker.operate)
        sys.stdin.read(1)


if __name__ == "__main__":
    main(*sys.argv[1:])
