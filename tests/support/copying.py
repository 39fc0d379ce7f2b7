"""Processes that copy a topic to another, exactly once, beside a feeder and a reader that live through all of it.

`look` is what holds at every moment: a copy and the offset behind its original are stored together. `check` is what
holds in the end: every record of the first topic has one in the second, and each key has its order.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from lakelog import Admin, Consumer, ConsumerRecord, Producer
from lakelog.foundation import errors
from tests.architecture.project_files import ROOT
from tests.support.cutting_proxy import CuttingProxy
from tests.support.serving import DEADLINE_S, Server, environment, wait_for

EXAMPLE = ROOT / "examples" / "exactly_once_loop.py"
SOURCE, TARGET, GROUP, PARTITIONS = "orders", "bills", "billing", 3
HASTY: dict[str, object] = {"retry.backoff.ms": 5, "retry.backoff.max.ms": 100}


class Copier:
    """A command, and the process that it is now, which may have others."""

    def __init__(
        self,
        command: Sequence[str],
        url: str,
        ends_by: signal.Signals = signal.SIGINT,
        variables: Mapping[str, str] | None = None,
    ) -> None:
        self._command = command
        self._variables = {"LAKELOG_SERVER": url, "PYTHONFAULTHANDLER": "1", **(variables or {})}
        self._ends_by = ends_by
        self._process: subprocess.Popen[str] | None = None

    def start(self) -> None:
        self._process = subprocess.Popen(
            self._command,
            env=environment() | self._variables,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def kill(self) -> None:
        """As the power goes; it must not have ended by itself."""
        process = self._running()
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate(timeout=DEADLINE_S)
        self._process = None

    def pause(self) -> None:
        os.killpg(self._running().pid, signal.SIGSTOP)

    def go_on(self) -> None:
        os.killpg(self._running().pid, signal.SIGCONT)

    def stop(self) -> None:
        """Ctrl-C, or as it is told otherwise."""
        process = self._running()
        process.send_signal(self._ends_by)
        try:
            _, said = process.communicate(timeout=DEADLINE_S)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGABRT)  # its threads tell where they are
            _, said = process.communicate()
        young = said.rstrip().endswith("KeyboardInterrupt")  # it had not come to its own lines yet
        assert process.returncode == 0 or young, said
        self._process = None

    def end(self) -> None:
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            sys.stderr.write(self._process.communicate()[1])

    def check(self) -> None:
        """It has not ended by itself."""
        self._running()

    def _running(self) -> subprocess.Popen[str]:
        process = self._process
        assert process is not None
        if process.poll() is not None:
            self._process = None
            raise AssertionError(process.communicate()[1])
        return process


def as_number(number: int) -> bytes:
    return b"%d" % number


class Feeder:
    """Sends numbered records of twenty keys until it is stopped."""

    def __init__(self, url: str, value: Callable[[int], bytes], pause_s: float) -> None:
        self._producer = Producer(HASTY | {"bootstrap.servers": url})
        self._value = value
        self._pause_s = pause_s
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._feed, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stopped.set()
        self._thread.join(DEADLINE_S)
        assert not self._thread.is_alive()

    def end(self) -> None:
        """Also where nobody answers any more."""
        self._stopped.set()
        self._producer.close(0)
        self._thread.join(DEADLINE_S)

    def _feed(self) -> None:
        numbers = itertools.count()
        with self._producer as producer:
            while not self._stopped.wait(self._pause_s):
                for number in itertools.islice(numbers, 40):
                    producer.send(SOURCE, self._value(number), key=b"%d" % (number % 20))


@contextmanager
def closing_soon(consumer: Consumer) -> Generator[Consumer]:
    """Also where nobody answers any more."""
    try:
        yield consumer
    finally:
        consumer.close(5.0)


class Watcher:
    """Reads a topic from its beginning, all along: what was seen once stays, and offsets have no gaps."""

    def __init__(self, url: str, topic: str = TARGET) -> None:
        self.seen: dict[int, list[ConsumerRecord]] = {partition: [] for partition in range(PARTITIONS)}
        self._url = url
        self._topic = topic
        self._stopped = threading.Event()
        self._failed: list[BaseException] = []
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stopped.set()
        self._thread.join(DEADLINE_S)
        assert not self._thread.is_alive()
        if self._failed:
            raise self._failed[0]

    def end(self) -> None:
        """Whatever it has seen."""
        self._stopped.set()
        self._thread.join(DEADLINE_S)

    def count(self) -> int:
        assert not self._failed, self._failed
        return sum(map(len, self.seen.values()))

    def _watch(self) -> None:
        settings = HASTY | {"bootstrap.servers": self._url, "group.id": "watcher", "enable.auto.commit": False}
        try:
            with closing_soon(Consumer(settings)) as consumer:
                consumer.assign([(self._topic, partition) for partition in self.seen])
                while not self._stopped.is_set():
                    for record in consumer.poll(0.1):
                        before = self.seen[record.partition]
                        assert record.offset == len(before), f"{record} after {len(before)}"
                        before.append(record)
        except BaseException as error:  # noqa: BLE001 - the test tells
            self._failed.append(error)


class Copying:
    """All of them, over one address."""

    def __init__(
        self, proxy: CuttingProxy, copiers: Sequence[Copier], value: Callable[[int], bytes], pause_s: float
    ) -> None:
        self.copiers = copiers
        self.feeder = Feeder(proxy.url, value, pause_s)
        self.watcher = Watcher(proxy.url)
        for copier in self.copiers:
            copier.start()

    def wait_for_copies(self, server: Server, more: int, seconds: float = DEADLINE_S) -> None:
        """Who ended by himself copies nothing more: that need not be waited for."""
        before = copied(server)

        def are_there() -> bool:
            for copier in self.copiers:
                copier.check()
            return copied(server) >= before + more

        wait_for(are_there, "more copies", seconds)

    def kill_some(self, chance: random.Random) -> None:
        """One at least, and begin them anew."""
        killed = chance.sample(self.copiers, chance.randint(1, len(self.copiers)))
        for copier in killed:
            copier.kill()
        for copier in killed:
            copier.start()

    def finish(self, server: Server) -> None:
        """Until all is copied; then everybody ends cleanly, and what was seen is what there is."""
        self.feeder.stop()
        end = ends(server, SOURCE)
        while (before := committed(server)) < end:
            wait_for(lambda than=before: committed(server) > than, f"that the copiers get on from {before} of {end}")
        for copier in self.copiers:
            copier.stop()
        wait_for(lambda: self.watcher.count() >= ends(server, TARGET), "the reader to come to the end")
        self.watcher.stop()
        assert self.watcher.seen == read_all(server, TARGET)
        check(server)

    def end(self) -> None:
        for each in (*self.copiers, self.feeder, self.watcher):
            each.end()


@contextmanager
def copying(proxy: CuttingProxy, names: Iterable[str], program: Path = EXAMPLE) -> Generator[Copying]:
    commands = [[sys.executable, str(program), SOURCE, TARGET, GROUP, name] for name in names]
    with copying_by([Copier(command, proxy.url) for command in commands], proxy) as going:
        yield going


@contextmanager
def copying_by(
    copiers: Sequence[Copier],
    proxy: CuttingProxy,
    value: Callable[[int], bytes] = as_number,
    pause_s: float = 0.02,
) -> Generator[Copying]:
    going = Copying(proxy, copiers, value, pause_s)
    try:
        yield going
    finally:
        going.end()


def make_topics(server: Server) -> None:
    with Admin({"bootstrap.servers": server.url}) as admin:
        for topic in (SOURCE, TARGET):
            admin.create_topic(topic, partitions=PARTITIONS)


def committed(server: Server) -> int:
    """How many records the group has behind it."""
    with Admin({"bootstrap.servers": server.url}) as admin:
        try:
            return sum(offset for offset, _ in admin.group_offsets(GROUP).values())
        except errors.UnknownGroup:
            return 0


def ends(server: Server, topic: str) -> int:
    """How many records it has."""
    with Admin({"bootstrap.servers": server.url}) as admin:
        return sum(admin.offsets(topic, partition).end_offset for partition in range(PARTITIONS))


def copied(server: Server) -> int:
    return ends(server, TARGET)


def look(server: Server) -> None:
    before = copied(server)
    behind = committed(server)
    assert before <= behind <= copied(server)


def read_all(server: Server, topic: str) -> dict[int, list[ConsumerRecord]]:
    found: dict[int, list[ConsumerRecord]] = {partition: [] for partition in range(PARTITIONS)}
    settings = {"bootstrap.servers": server.url, "group.id": "reading", "enable.auto.commit": False}
    total, deadline = ends(server, topic), time.monotonic() + DEADLINE_S
    with Consumer(settings) as consumer:
        consumer.assign([(topic, partition) for partition in found])
        while sum(map(len, found.values())) < total:
            assert time.monotonic() < deadline
            for record in consumer.poll(1.0):
                found[record.partition].append(record)
    return found


def check(server: Server) -> None:
    """By key, so that neither an order nor a number of copies can differ."""
    given = _by_key(read_all(server, SOURCE), lambda value: b"bill of " + value)
    made = _by_key(read_all(server, TARGET), lambda value: value)
    assert given.keys() == made.keys()
    for key, values in given.items():
        assert made[key] == values, f"{key!r}: {len(values)} records, {len(made[key])} copies"


def _by_key(records: dict[int, list[ConsumerRecord]], change: Callable[[bytes], bytes]) -> dict[Any, list[bytes]]:
    found: dict[Any, list[bytes]] = defaultdict(list)
    for record in itertools.chain.from_iterable(records.values()):
        found[record.key].append(change(record.value))
    return found
