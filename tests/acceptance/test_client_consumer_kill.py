"""Consumers beside servers that are killed, connections that break, and consumers that stand still."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from lakelog import Admin, Consumer, Producer
from tests.architecture.project_files import ROOT
from tests.support.consumer_kinds import KINDS
from tests.support.cutting_proxy import CuttingProxy
from tests.support.serving import DEADLINE_S, Server, environment, serving, wait_for

#: LAKELOG_KILL_ROUNDS=20 for a long run; LAKELOG_SEED for other moments.
ROUNDS = int(os.environ.get("LAKELOG_KILL_ROUNDS", "3"))
SEED = int(os.environ.get("LAKELOG_SEED", "1"))
TOPIC, PARTITIONS = "orders", 3
SETTINGS: dict[str, object] = {"group.id": "g", "retry.backoff.ms": 5, "retry.backoff.max.ms": 100}
TROUBLE = {
    "cut the request": 0.05,
    "lose the answer": 0.05,
    "cut the answer": 0.05,
    "come late": 0.05,
    "spoil the answer": 0.03,
}


class Seen:
    """What one consumer was given, from its subscription to its close; and whether each partition came in order."""

    def __init__(self) -> None:
        self.next: dict[int, int] = {}
        self.values: list[bytes] = []
        self._stop = threading.Event()
        self._failed: list[BaseException] = []

    def live(self, kind: str, settings: dict[str, object]) -> threading.Thread:
        thread = threading.Thread(target=self._live, args=(kind, settings), daemon=True)
        thread.start()
        return thread

    def stop(self, thread: threading.Thread) -> None:
        self._stop.set()
        thread.join(DEADLINE_S)
        assert not thread.is_alive()
        if self._failed:
            raise self._failed[0]

    def _live(self, kind: str, settings: dict[str, object]) -> None:
        consumer = KINDS[kind](settings)
        try:
            with consumer:
                consumer.subscribe(TOPIC)
                while not self._stop.is_set():
                    for record in consumer.poll(0.1):
                        expected = self.next.get(record.partition, 0)
                        assert record.offset == expected, f"{record.partition}: {record.offset}, not {expected}"
                        self.next[record.partition] = record.offset + 1
                        self.values.append(record.value)
        except BaseException as error:  # noqa: BLE001 - the test raises it
            self._failed.append(error)
        finally:
            if hasattr(consumer, "end"):
                consumer.end()


def make_topic(server: Server) -> None:
    with Admin({"bootstrap.servers": server.url}) as admin:
        admin.create_topic(TOPIC, partitions=PARTITIONS)


def committed(server: Server) -> dict[int, int]:
    shown = httpx.get(f"{server.url}/groups/g/offsets").json()["offsets"]
    return {each["partition"]: each["next_offset"] for each in shown}


@pytest.mark.timeout(300 + 20 * ROUNDS)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("end", ["kill", "terminate"])
def test_servers_may_come_and_go_and_every_record_comes_once_and_in_order(tmp_path: Path, kind: str, end: str):
    chance, seen, sent = random.Random(f"{SEED} {kind} {end}"), Seen(), list[bytes]()
    more = {"auto.commit.interval.ms": 50, "fetch.max.bytes": 2_000, "max.poll.records": 20}
    with CuttingProxy(chance) as proxy:
        living = producer = None
        for number in range(ROUNDS + 1):
            with serving(tmp_path) as server:
                proxy.target = server.address
                if producer is None:
                    make_topic(server)
                    producer = Producer({"bootstrap.servers": proxy.url, "retry.backoff.ms": 5})
                    living = seen.live(kind, SETTINGS | more | {"bootstrap.servers": proxy.url})
                before = len(seen.values)
                for _ in range(500):
                    sent.append(b"%d" % len(sent))
                    producer.send(TOPIC, sent[-1])
                if number == ROUNDS:
                    producer.close()
                    wait_for(lambda: len(seen.values) >= len(sent), "every record")
                    assert living is not None
                    seen.stop(living)
                    assert committed(server) == seen.next, "the close committed"
                    break
                some = chance.randrange(1, 400)
                wait_for(lambda before=before, some=some: len(seen.values) >= before + some, "records")
                getattr(server, end)()
                proxy.target = None
    assert sorted(seen.values) == sorted(sent)


@pytest.mark.parametrize("kind", KINDS)
def test_connections_may_break_anywhere_and_every_record_comes_once_and_in_order(tmp_path: Path, kind: str):
    seen = Seen()
    more = {"auto.commit.interval.ms": 20, "fetch.max.bytes": 1_000, "max.poll.records": 10, "fetch.max.wait.ms": 20}
    with serving(tmp_path) as server, CuttingProxy(random.Random(f"{SEED} {kind}"), late_s=0.1) as proxy:
        make_topic(server)
        with Producer({"bootstrap.servers": server.url}) as producer:
            for number in range(1_500):
                producer.send(TOPIC, b"%d" % number)
        proxy.target, proxy.trouble = server.address, TROUBLE
        living = seen.live(kind, SETTINGS | more | {"bootstrap.servers": proxy.url})
        wait_for(lambda: len(seen.values) >= 1_500, "every record")
        wait_for(lambda: set(proxy.happened) >= set(TROUBLE), "every trouble")
        proxy.trouble = {}
        proxy.wait_until_late_ones_came()  # a commit that comes behind the last one is stored as it is given
        seen.stop(living)
        assert committed(server) == seen.next
    assert sorted(map(int, seen.values)) == list(range(1_500))


ZOMBIE = """
import sys
from lakelog import Consumer, errors
with Consumer({"bootstrap.servers": sys.argv[1], "group.id": "g", "enable.auto.commit": False,
               "session.timeout.ms": 500, "heartbeat.interval.ms": 100, "max.poll.records": 10}) as consumer:
    consumer.subscribe("orders", on_lost=lambda partitions: print("lost", len(partitions), flush=True))
    records = []
    while len(records) < 10:
        records += consumer.poll(1.0)
    print("read", flush=True)
    sys.stdin.readline()
    for offsets in (None, {(records[0].topic, records[0].partition): records[0].offset + 1}):
        try:
            consumer.commit(offsets)
        except errors.CommitFailed as error:
            print("refused", type(error).__name__, flush=True)
        else:
            print("committed", flush=True)
    while len(consumer.poll(1.0)) == 0:
        pass
    print("reads again", flush=True)
"""


@contextmanager
def ending(process: subprocess.Popen[str]) -> Generator[None]:
    """Whatever fails: else whoever waits for the process waits for ever."""
    try:
        yield
    finally:
        process.kill()


def test_a_consumer_that_stood_still_cannot_commit_and_comes_back_as_another(tmp_path: Path):
    with serving(tmp_path) as server:
        make_topic(server)
        with Producer({"bootstrap.servers": server.url}) as producer:
            for number in range(100):
                producer.send(TOPIC, b"%d" % number)
        command = [sys.executable, "-c", ZOMBIE, server.url]
        zombie = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT, env=environment()
        )
        with zombie, ending(zombie):
            assert zombie.stdin is not None
            assert zombie.stdout is not None
            # Whoever is held up for half a second is lost before, and begins anew.
            assert next(line for line in zombie.stdout if line != "lost 3\n") == "read\n"
            zombie.send_signal(signal.SIGSTOP)
            other = Consumer({"bootstrap.servers": server.url, "group.id": "g"})
            other.subscribe(TOPIC)
            seen: list[Any] = []
            deadline = time.monotonic() + DEADLINE_S
            while len(seen) < 100:
                assert time.monotonic() < deadline
                seen += other.poll(0.2)
            other.close()
            before = committed(server)
            assert sum(before.values()) == 100
            zombie.send_signal(signal.SIGCONT)
            print(file=zombie.stdin, flush=True)
            assert [zombie.stdout.readline() for _ in range(2)] == ["refused CommitFailed\n"] * 2
            assert committed(server) == before
            with Producer({"bootstrap.servers": server.url}) as producer:
                producer.send(TOPIC, b"more")
            assert zombie.stdout.readline() == "lost 3\n"
            assert next(line for line in zombie.stdout if line != "lost 3\n") == "reads again\n"
            assert zombie.wait(DEADLINE_S) == 0
