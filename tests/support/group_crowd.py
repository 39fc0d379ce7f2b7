"""Members of a group as processes that come and go, what they wrote down, and what may be true of it."""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple, Self

import httpx

from tests.support.serving import DEADLINE_S, environment, wait_for

WORKER = Path(__file__).with_name("group_worker.py")
TOPIC, GROUP = "orders", "billing"
PARTITIONS = 6


class Line(NamedTuple):
    what: str
    words: tuple[str, ...]


class Pace(NamedTuple):
    session_ms: int = 1_500
    rebalance_ms: int = 1_500
    #: how long each batch takes
    slow_ms: int = 0


class Member:
    """A process; its lines are in `path`."""

    def __init__(self, url: str, kind: str, name: str, path: Path, pace: Pace) -> None:
        self.name = name
        self.path = path
        self._url = url
        self._read = 0
        self._lines: list[Line] = []
        self._counts: Counter[str] = Counter()
        given = (kind, url, GROUP, name, TOPIC, str(path), *map(str, pace))
        with path.with_suffix(".err").open("wb") as said:
            self.process = subprocess.Popen([sys.executable, str(WORKER), *given], env=environment(), stderr=said)

    def lines(self) -> list[Line]:
        """All whole lines so far; only what is new is read."""
        if self.path.exists():
            with self.path.open("rb") as file:
                file.seek(self._read)
                whole, _, _ = file.read().rpartition(b"\n")
            for line in whole.decode().splitlines():
                first, *rest = line.split()
                self._lines.append(Line(first, tuple(rest)))
                self._counts[first] += 1
            self._read += len(whole) + 1 if whole else 0
        return self._lines

    def count(self, what: str) -> int:
        self.lines()
        return self._counts[what]

    def story(self) -> str:
        """For a person who asks why: what it did, what it said, and what the group says of it."""
        said = self.path.with_suffix(".err").read_text()
        group = httpx.get(f"{self._url}/groups/{GROUP}").text
        ended = self.process.poll()
        return f"{self.name}: {dict(self._counts)}, at last {self.lines()[-3:]}, ended by {ended}\n{said}\n{group}"

    def pause(self) -> None:
        """It stands still when this returns."""
        self.process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, self.process.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)

    def quiet_s(self) -> float:
        """How long ago it said something."""
        return time.time() - self.path.stat().st_mtime

    def resume(self) -> None:
        self.process.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(DEADLINE_S)

    def stop(self) -> None:
        """Cleanly; it must have nothing to complain of."""
        self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(DEADLINE_S)
        assert code == 0, self.path.with_suffix(".err").read_text()
        assert self.lines()[-1].what == "left"


class Crowd:
    """All members there ever were; `with` ends the last of them, whatever happens."""

    def __init__(self, url: str, kind: str, place: Path) -> None:
        self.url = url
        self.kind = kind
        self.members: list[Member] = []
        self._place = place
        self._names = itertools.count(1)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for member in self.members:
            member.kill()

    @property
    def living(self) -> list[Member]:
        return [member for member in self.members if member.process.poll() is None]

    def join(self, *, url: str | None = None, pace: Pace = Pace()) -> Member:  # noqa: B008 - it never changes
        name = f"member-{next(self._names)}"
        member = Member(url or self.url, self.kind, name, self._place / f"{name}.txt", pace)
        self.members.append(member)
        return member

    def given(self) -> Counter[tuple[int, int]]:
        """How often each record was delivered, by partition and offset."""
        lines = (line for member in self.members for line in member.lines() if line.what == "given")
        return Counter((int(line.words[0]), int(line.words[1])) for line in lines)

    def values(self) -> dict[tuple[int, int], set[str]]:
        """What each record was, for all that were given it."""
        found: dict[tuple[int, int], set[str]] = defaultdict(set)
        for member in self.members:
            for line in member.lines():
                if line.what == "given":
                    found[int(line.words[0]), int(line.words[1])].add(line.words[2])
        return found

    def stop_all(self) -> None:
        for member in self.living:
            member.stop()


class Feed:
    """Produces numbered records until it is stopped; `sent` are those that were acknowledged."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.sent: set[str] = set()

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        self._stopped.set()
        self._thread.join(DEADLINE_S)
        assert not self._thread.is_alive()

    def _run(self) -> None:
        headers = {"content-type": "application/x-ndjson"}
        with httpx.Client() as client:
            for batch in self._batches():
                body = "".join(f"{value}\n" for value in batch)
                try:
                    answer = client.post(f"{self._url}/topics/{TOPIC}", content=body, headers=headers)
                except httpx.TransportError:
                    continue
                if answer.status_code == httpx.codes.OK:
                    self.sent.update(batch)

    def _batches(self) -> Iterator[list[str]]:
        numbers = itertools.count()
        while not self._stopped.wait(0.02):
            yield [str(next(numbers)) for _ in range(40)]


def make_topic(url: str) -> None:
    made = httpx.put(f"{url}/topics/{TOPIC}", json={"partitions": PARTITIONS})
    assert made.status_code == httpx.codes.CREATED, made.text


def committed(url: str) -> dict[int, int]:
    answer = httpx.get(f"{url}/groups/{GROUP}/offsets")
    if answer.status_code == httpx.codes.NOT_FOUND:
        return {}
    return {each["partition"]: each["next_offset"] for each in answer.json()["offsets"]}


def ends(url: str) -> dict[int, int]:
    found = {}
    for partition in range(PARTITIONS):
        answer = httpx.get(f"{url}/topics/{TOPIC}/partitions/{partition}/offsets").json()
        found[partition] = answer["end_offset"]
    return found


def wait_until_all_is_committed(url: str) -> dict[int, int]:
    wanted = {partition: end for partition, end in ends(url).items() if end}
    wait_for(lambda: committed(url) == wanted, f"commits up to {wanted}")
    return wanted
