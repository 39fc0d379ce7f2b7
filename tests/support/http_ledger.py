"""What a server answered to its producers and showed to its readers, and whether it keeps to it.

Every value is sent in one request only, so a value that is held twice was stored twice. What became of a request that
was not answered, or accepted only, is not known: it is there as a whole, or not at all.

`held` is what a reader found: of each partition of each topic the values in the order they came, with their offsets.
"""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, NamedTuple

import httpx
import pyarrow as pa

from delta_log.fetch.sql import read_table
from tests.support.serving import wait_for

Fate = Literal["unknown", "accepted", "answered", "refused"]
#: Of one partition, what was read of it: offset and value.
Rows = list[tuple[int, bytes]]
Held = dict[tuple[str, int], Rows]


class Broken(AssertionError):
    """The server does not hold what it promised."""


class Place(NamedTuple):
    partition: int
    offset: int


@dataclass
class Sent:
    """One request. `places` are those of its values, as they were answered."""

    by: str
    topic: str
    values: list[bytes]
    fate: Fate = "unknown"
    places: list[Place] = field(default_factory=list)


class HttpLedger:
    """Fed by many threads; `check` is for when they have ended."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.sent: list[Sent] = []
        self.seen: dict[tuple[str, Place], bytes] = {}
        self.answers = 0
        #: What a client met that must never happen.
        self.faults: list[str] = []

    def sending(self, by: str, topic: str, values: list[bytes]) -> Sent:
        """Before the first byte of it."""
        sent = Sent(by, topic, values)
        with self._lock:
            self.sent.append(sent)
        return sent

    def answered(self, sent: Sent, places: Sequence[Place]) -> None:
        """The answer to it, the first or a later one; all of them are the same."""
        with self._lock:
            self.answers += 1
        if sent.fate == "answered" and sent.places != list(places):
            self.fault(f"{sent.by} was told {sent.places} and later {list(places)}")
        if len(places) != len(sent.values):
            self.fault(f"{sent.by} sent {len(sent.values)} values and was told {list(places)}")
        sent.fate, sent.places = "answered", list(places)

    def accepted(self, sent: Sent) -> None:
        """It will be stored, if the server is not killed."""
        sent.fate = "accepted"

    def refused(self, sent: Sent) -> None:
        """Nothing of it was stored, said the answer."""
        sent.fate = "refused"

    def saw(self, topic: str, partition: int, offset: int, value: bytes) -> None:
        """A reader was given this."""
        with self._lock:
            before = self.seen.setdefault((topic, Place(partition, offset)), value)
        if before != value:
            self.fault(f"{topic}-{partition} {offset} was {before!r} to one reader and {value!r} to another")

    def fault(self, what: str) -> None:
        with self._lock:
            self.faults.append(what)

    def wait_for_answers(self, more: int) -> None:
        """Until so many more requests are answered, or something is wrong."""
        before = self.answers
        wait_for(lambda: self.answers >= before + more or self.faults, f"{more} more answers")

    @property
    def unknown(self) -> list[Sent]:
        return [sent for sent in self.sent if sent.fate == "unknown"]

    def check(self, held: Held, *, killed: bool = True) -> None:
        """Everything that was answered is held, once, in order, at its place; everything else as a whole or not.

        Unless a server was `killed`, everything that was accepted is held, too.
        """
        _demand(not self.faults, "; ".join(self.faults[:5]))
        where = _places(held)
        newest: dict[tuple[str, str, int], int] = {}
        for sent in self.sent:
            places = [where.pop((sent.topic, value), None) for value in sent.values]
            name = f"{sent.fate} request of {sent.by} to {sent.topic} with {sent.values[0]!r}"
            if sent.fate == "answered":
                _demand(places == sent.places, f"the {name} was told {sent.places[:3]}, is at {places[:3]}")
            present = [place for place in places if place is not None]
            _demand(sent.fate != "refused" or not present, f"the {name} is stored")
            _demand(killed or sent.fate != "accepted" or bool(present), f"the {name} is lost")
            _demand(len(present) in (0, len(places)), f"the {name} is there in parts: {len(present)} of {len(places)}")
            _check_order(name, present, sent, newest)
        _demand(not where, f"nobody sent {list(where)[:5]}")
        found = {(topic, Place(of, at)): value for (topic, of), rows in held.items() for at, value in rows}
        for place, value in self.seen.items():
            _demand(found.get(place) == value, f"a reader saw {value!r} at {place}, where {found.get(place)!r} is")


def _places(held: Held) -> dict[tuple[str, bytes], Place]:
    where: dict[tuple[str, bytes], Place] = {}
    for (topic, partition), rows in held.items():
        offsets = [offset for offset, _ in rows]
        _demand(offsets == list(range(len(rows))), f"{topic}-{partition} has other offsets than 0 to {len(rows) - 1}")
        for offset, value in rows:
            before = where.setdefault((topic, value), Place(partition, offset))
            _demand(before == (partition, offset), f"{topic} holds {value!r} twice, at {before} too")
    return where


def _check_order(name: str, places: Iterable[Place], sent: Sent, newest: dict[tuple[str, str, int], int]) -> None:
    """A producer's records are in the order in which it sent them, and those of one request are side by side."""
    first: set[int] = set()
    for partition, offset in places:
        key = (sent.by, sent.topic, partition)
        before = newest.get(key, -1)
        _demand(offset > before, f"the {name} is out of order: {offset} comes behind {before}")
        _demand(partition not in first or offset == before + 1, f"the {name} has something between its records")
        first.add(partition)
        newest[key] = offset


def read_lines(url: str, topics: dict[str, int], *, page: int = 5_000) -> Held:
    """Everything there is, page by page as NDJSON."""
    held: Held = {}
    with httpx.Client(base_url=url, timeout=30) as client:
        for topic, partitions in topics.items():
            for partition in range(partitions):
                rows: Rows = []
                following, end = 0, 1
                while following < end:
                    path = f"/topics/{topic}/partitions/{partition}/records"
                    asked = {"offset": following, "decode": "base64", "max_records": page}
                    answer = client.get(path, params=asked)
                    _demand(answer.status_code == 200, f"{path} answered {answer.status_code} {answer.text[:500]}")
                    for line in answer.text.splitlines():
                        record = json.loads(line)
                        rows.append((record["offset"], base64.b64decode(record["value"])))
                    following = int(answer.headers["lakelog-next-offset"])
                    end = int(answer.headers["lakelog-end-offset"])
                held[topic, partition] = rows
    return held


def read_arrow(url: str, topics: dict[str, int]) -> Held:
    """Everything there is, page by page as Arrow."""
    held: Held = {}
    headers = {"Accept": "application/vnd.apache.arrow.stream"}
    with httpx.Client(base_url=url, timeout=30, headers=headers) as client:
        for topic, partitions in topics.items():
            for partition in range(partitions):
                rows: Rows = []
                following, end = 0, 1
                while following < end:
                    path = f"/topics/{topic}/partitions/{partition}/records"
                    answer = client.get(path, params={"offset": following, "max_bytes": 1 << 26})
                    _demand(answer.status_code == 200, f"{path} answered {answer.status_code} {answer.text[:500]}")
                    with pa.ipc.open_stream(answer.content) as stream:
                        table = stream.read_all()
                    _demand(set(table["partition"].to_pylist()) <= {partition}, f"{path} has another partition")
                    rows += zip(table["offset"].to_pylist(), table["value"].to_pylist(), strict=True)
                    following = int(answer.headers["lakelog-next-offset"])
                    end = int(answer.headers["lakelog-end-offset"])
                held[topic, partition] = rows
    return held


def read_tables(root: Path, topics: dict[str, int]) -> Held:
    """The rows of the Delta tables, as delta-rs reads them."""
    held: Held = {}
    for topic, partitions in topics.items():
        held |= {(topic, partition): [] for partition in range(partitions)}
        columns = read_table(str(root / "topics" / topic), ["partition", "offset", "value"]).to_pydict()
        for row in sorted(zip(columns["partition"], columns["offset"], columns["value"], strict=True)):
            held[topic, row[0]].append(row[1:])
    return held


def _demand(holds: bool, what: str) -> None:
    if not holds:
        raise Broken(what)
