"""What a thousand readers cost who wait for what never comes."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from benchmarks.http_bodies import make_requests
from benchmarks.http_cases import Case, measure, pick_generator
from benchmarks.http_delivery import KINDS, watch
from benchmarks.http_fetch import read_all
from benchmarks.http_generator import drive_python
from benchmarks.http_servers import Asker, ServerProcess, lakelog_command
from benchmarks.processes import Worker
from benchmarks.rows import Param, Row, Target, beside, judge, over_turns, percentile
from benchmarks.sizes import Size
from benchmarks.topics import PARTITIONS

_TOPICS: Final = 10
_READ: Final = "read"
_REQUESTS_READ: Final = 10
_PER_REQUEST: Final = 10_000
_OPEN_POLLS: Final = "lakelog_http_open_polls"
_MOST_WAIT_S: Final = 30
#: The longest that a server lets a poll wait.
_POLL_S: Final = 60
NO_SLOWER: Final = Target("ratio", "<=", 1.1)
NO_LESS: Final = Target("ratio", ">=", 0.9)


def run(place: Path, size: Size) -> Iterator[Row]:
    """The main rows of the others, without and with idle long-polls on other topics of the same server, in turn.

    `http-idle`: the row with the long-polls, beside itself without them; `what` names it: requests of one record over
    one connection (p50) and over many, 1,000 records of JSON, a fetch of what was just produced, and deliveries (p50).
    """
    with ServerProcess(lakelog_command(place / "root"), place / "server.log") as server:
        ends = _prepare(server.url, size)
        rows = _rows_of(server.url, ends, size)
        without: dict[str, list[float]] = {what: [] for what in rows}
        beside_polls: dict[str, list[float]] = {what: [] for what in rows}
        idle = Worker(_hold, server.url)
        try:
            for take, _ in rows.values():
                take()  # the first time everything is new
            for turn in range(size.turns):
                for crowded in (False, True) if turn % 2 else (True, False):
                    with _polls(idle, server.url, size.idle_polls) if crowded else nullcontext():
                        for what, (take, _) in rows.items():
                            (beside_polls if crowded else without)[what].append(take())
        finally:
            idle.close()
    for what, (_, unit) in rows.items():
        params: dict[str, Param] = {"what": what, "polls": size.idle_polls}
        row = over_turns(beside_polls[what], unit, name="http-idle", params=params)
        row = beside(row, "without idle polls", beside_polls[what], without[what])
        yield judge(row, NO_SLOWER if unit == "ms" else NO_LESS)


def _prepare(url: str, size: Size) -> list[int]:
    with Asker(url) as asker:
        for number in range(_TOPICS):
            asker.create_topic(_idle_topic(number))
        asker.create_topic(_READ)
        requests = make_requests("arrow", min(_PER_REQUEST, size.pool), 100, keyed=True, most=size.pool)
        for _ in range(_REQUESTS_READ):
            drive_python(f"{url}/topics/{_READ}", requests, connections=1, seconds=0)
        return asker.end_offsets(_READ)


def _rows_of(url: str, ends: list[int], size: Size) -> Mapping[str, tuple[Callable[[], float], str]]:
    """How to measure each, and its unit."""
    by = pick_generator(size.seconds)
    some = size.connections[len(size.connections) // 2]
    alone = Case("binary", 1, 1, by=by)
    many = Case("binary", 1, size.connections[-1], by=by)
    large = Case("binary", 1_000, some, by=by)

    def load(case: Case) -> float:
        return measure(url, case, case.requests(size), size.seconds).per_second * case.records

    def delivery(kind: str) -> float:
        return percentile(watch(url, kind, size.deliveries).delivered, 0.5)

    rows: dict[str, tuple[Callable[[], float], str]] = {
        "one": (lambda: measure(url, alone, alone.requests(size), size.seconds).p50, "ms"),
        f"one-{many.connections}": (lambda: load(many), "records/s"),
        f"json-1000-{some}": (lambda: load(large), "records/s"),
        "fetch-ndjson": (lambda: read_all(url, _READ, ends, "ndjson", 1 << 20)[0], "records/s"),
    }
    return rows | {kind: (lambda kind=kind: delivery(kind), "ms") for kind in KINDS}


@contextmanager
def _polls(idle: Worker, url: str, count: int) -> Generator[None]:
    """Begin when the server says that all of them wait, and end when none does."""
    began = time.monotonic()
    idle.ask("open", count)
    with Asker(url) as asker:
        _wait(asker, lambda waiting: waiting >= count)
        yield
        answered, passed = idle.ask("close"), time.monotonic() - began
        _wait(asker, lambda waiting: waiting == 0)
    if answered > count * (passed // _POLL_S):
        raise RuntimeError(f"{answered} answers came to {count} long-polls within {passed:.1f} s: they were not idle")


def _wait(asker: Asker, enough: Callable[[float], bool]) -> None:
    deadline = time.monotonic() + _MOST_WAIT_S
    while not enough(waiting := asker.metric(_OPEN_POLLS)):
        if time.monotonic() > deadline:
            raise TimeoutError(f"{waiting:.0f} long-polls wait after {_MOST_WAIT_S} s")
        time.sleep(0.02)


def _idle_topic(number: int) -> str:
    return f"idle-{number}"


def _hold(connection: Connection, url: str) -> None:
    """In a process of its own: opens and closes long-polls, each of which is asked again when it was answered."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    held: list[_Poll] = []
    try:
        while True:
            match connection.recv():
                case ("open", count):
                    held = asyncio.run_coroutine_threadsafe(_open(url, count), loop).result()
                case ("close",):
                    for poll in held:
                        loop.call_soon_threadsafe(poll.end)
                case unknown:
                    raise ValueError(unknown)
            connection.send(sum(poll.answered for poll in held))
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


async def _open(url: str, count: int) -> list[_Poll]:
    at = urlsplit(url)
    loop = asyncio.get_running_loop()
    held: list[_Poll] = []
    for number in range(count):
        topic, partition = _idle_topic(number % _TOPICS), number // _TOPICS % PARTITIONS
        path = f"/topics/{topic}/partitions/{partition}/records?offset=latest&timeout={_POLL_S * 1000}"
        request = f"GET {path} HTTP/1.1\r\nHost: {at.netloc}\r\n\r\n".encode()
        _, poll = await loop.create_connection(lambda request=request: _Poll(request), at.hostname, at.port)
        held.append(poll)
    return held


class _Poll(asyncio.Protocol):
    def __init__(self, request: bytes) -> None:
        self._request = request
        self.answered = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport
        transport.write(self._request)

    def data_received(self, _data: bytes) -> None:
        """The answer to a poll that found nothing is one piece."""
        self.answered += 1
        self._transport.write(self._request)

    def end(self) -> None:
        self._transport.close()
