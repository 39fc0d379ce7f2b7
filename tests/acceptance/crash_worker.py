"""A process that uses a log with all its might until it is killed, and reports each promise that it was given.

    crash_worker.py <root> <round> <step> <hit>     dies at that hit of the step; step "-" means: never by itself

Every line of its output is one event (tests/support/ledger.py). A promise is reported after it was made, so whoever
reads the lines knows of no more than what was promised.
"""

from __future__ import annotations

import json
import os
import random
import sys
import threading
from collections.abc import Callable

from delta_log import Log, ProducerStamp, Record, Settings
from delta_log.maintenance import background as upkeep
from delta_log.maintenance import history as housekeeping
from delta_log.model.errors import Closed, InvalidRequest, PlanOutdated
from delta_log.topics.catalog import Catalog
from tests.support.kill_probe import Probe

PARTITIONS = {"orders": 3, "clicks": 1, "short": 1, "brief": 1}
CONFIG = {
    "lakelog.commit.interval.ms": 100,
    "lakelog.fold.files": 2,
    "lakelog.history.commits": 100,
    "file.delete.delay.ms": 0,
}
ANY_OFFSET = 1 << 60
#: The load keeps step with the tables, so that every step is come to soon on any machine.
APPENDS_A_TURN = 30


class Worker:
    """Threads that append, one that reads, and one that does what an operator and the background do."""

    def __init__(self, log: Log, number: int) -> None:
        self.log = log
        self.number = number
        self.ids: dict[str, str] = {}
        self._lock = threading.Lock()
        self._permits = threading.Semaphore(APPENDS_A_TURN)

    def report(self, *event: object) -> None:
        line = json.dumps(event).encode() + b"\n"
        with self._lock:
            os.write(1, line)

    def create(self, topic: str, **config: object) -> None:
        if topic not in self.log.topics():
            self.report("creating", topic)
            self.log.create_topic(topic, PARTITIONS[topic], CONFIG | config)
        self.ids[topic] = self.log.describe_topic(topic).id
        self.report("created", topic, self.ids[topic])

    def append(self, name: str, topics: list[str], producer: str | None) -> None:
        chance = random.Random(f"{self.number} {name}")
        sent, sequences = 0, dict.fromkeys(topics, 0)
        while True:
            self._permits.acquire()
            topic = chance.choice(topics)
            count = chance.choice([1, 1, 2, 5])
            size = 30_000 if chance.random() < 0.03 else 0
            values = [f"{self.number}.{name}.{sent + index}".ljust(size, "x") for index in range(count)]
            sent += count
            stamp = ProducerStamp(f"{producer}-{self.number}", 0, sequences[topic]) if producer else None
            sequences[topic] += count
            self.append_once(topic, values, stamp)

    def append_once(self, topic: str, values: list[str], stamp: ProducerStamp | None) -> None:
        life = self.ids[topic]
        records = [Record(value.encode(), key=value.encode()) for value in values]
        answer = self.log.append(topic, records, producer=stamp)
        offsets = answer.offsets()
        for partition, offset, value in zip(answer.partitions, offsets, values, strict=True):
            self.report("acked", topic, life, partition, offset, [value])
        if stamp is not None:
            self.report("stored", topic, life, stamp.producer_id, stamp.epoch, stamp.sequence, values, offsets)

    def read(self) -> None:
        """Reports what any reader could have seen, acknowledged or not."""
        places = {(topic, partition): 0 for topic in ("orders", "clicks") for partition in range(PARTITIONS[topic])}
        while True:
            for (topic, partition), offset in places.items():
                fetched = self.log.read(topic, partition, offset, max_records=200, wait_s=0.01)
                values = [(record.value or b"").decode() for record in fetched.records()]
                if values:
                    self.report("seen", topic, self.ids[topic], partition, fetched.next_offset - len(values), values)
                places[topic, partition] = fetched.next_offset

    def operate(self) -> None:
        chance = random.Random(self.number)
        turn = 0
        while True:
            turn += 1
            self._permits.release(APPENDS_A_TURN)
            self.log.flush(chance.choice(["orders", "clicks", "short"]))
            self.log.run_upkeep()
            self.append_once("short", [f"{self.number}.short.{turn}".ljust(500, "x")], None)
            self.append_once("brief", [f"{self.number}.brief.{turn}"], None)
            if turn % 3 == 0:
                self.retain()
            if turn % 5 == 0:
                self.live_again("brief")

    def retain(self) -> None:
        self.log.flush("short")
        self.report("cutting", "short", self.ids["short"], 0, ANY_OFFSET)
        self.log.run_retention("short")

    def live_again(self, topic: str) -> None:
        self.report("deleting", topic, self.ids[topic])
        self.log.delete_topic(topic)
        self.report("deleted", topic, self.ids[topic])
        self.create(topic)


def keep_doing(what: Callable[[], None]) -> threading.Thread:
    """A thread's work; a failure that cannot be is the end of the process, with its reason for all to see."""

    def run() -> None:
        while True:
            try:
                what()
            except Closed:
                return
            except (InvalidRequest, PlanOutdated) as error:
                print(f"again, after {error}", file=sys.stderr)
            except BaseException as error:  # noqa: BLE001 - to be seen by the parent
                print(f"failed: {error!r}", file=sys.stderr)
                os._exit(1)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    return thread


def main(root: str, number: str, step: str, hit: str) -> None:
    housekeeping.CHECKPOINT_EVERY = 5  # type: ignore[misc]
    upkeep.CLEAN_EVERY_S = 0.0  # type: ignore[misc]
    probe = Probe(step, int(hit))
    delete = Catalog.delete

    def delete_decided(catalog: Catalog, live: object) -> None:
        probe("topic.deletion_decided")
        delete(catalog, live)  # type: ignore[arg-type]

    Catalog.delete = delete_decided  # type: ignore[method-assign]
    with Log.open(root, settings=Settings(segment_bytes=64 * 1024), probe=probe) as log:
        worker = Worker(log, int(number))
        for topic in PARTITIONS:
            worker.create(topic, **({"retention.bytes": 1000} if topic == "short" else {}))
        for name in ("a", "b"):
            keep_doing(lambda name=name: worker.append(name, ["orders", "clicks"], None))
        keep_doing(lambda: worker.append("c", ["orders", "clicks"], "producer"))
        keep_doing(worker.read)
        keep_doing(worker.operate)
        worker.report("ready", "")
        sys.stdin.read(1)
        worker.report("closing", "")


if __name__ == "__main__":
    main(*sys.argv[1:])
