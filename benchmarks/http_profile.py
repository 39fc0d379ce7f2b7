"""Where the server's time goes under load."""

from __future__ import annotations

import json
import os
import pstats
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from time import perf_counter
from typing import Any, Final

from benchmarks.http_bodies import make_requests
from benchmarks.http_cases import GENERATORS, pick_generator
from benchmarks.http_fetch import read_all
from benchmarks.http_generator import drive_python
from benchmarks.http_profiled import BEGUN, THREADS
from benchmarks.http_servers import PROJECT, Asker, ServerProcess, serve_options
from benchmarks.rows import Param, Row
from benchmarks.sizes import Size

_SHOWN: Final = 15
_THREADS_SHOWN: Final = 8
_TOPIC: Final = "orders"
_READ_TOPIC: Final = "read"
_MOST_WAIT_S: Final = 30
_PRODUCED: Final = (("binary", 1), ("binary", 1_000), ("ndjson", 1_000), ("arrow", 10_000))
_READ: Final = ("ndjson", "arrow")


def run(place: Path, size: Size) -> Iterator[Row]:
    """A server under cProfile: requests of one record over most connections, larger ones over some.

    `http-profile.loop`: the CPU seconds of the loop's thread for each second of load. `http-profile`: the functions
    with the greatest own times, in % of what the loop's thread did; with the microseconds and calls a request;
    a request of `fetch` is a pass over the whole topic.
    `http-profile.threads`: CPU of each kind of thread in % of the whole process. Profiled calls are dearer than others,
    so the shares of small functions are too large. The same by hand: `python -m benchmarks.http_profiled FILE --port
    8082`, then SIGUSR1 before and behind the load, then `python -m pstats FILE`.
    """
    file = place / "loop.prof"
    command = (sys.executable, "-m", "benchmarks.http_profiled", str(file), *serve_options(place / "root"))
    with ServerProcess(command, place / "server.log") as server:
        _fill(server.url, size)
        for form, records in _PRODUCED:
            connections = size.connections[-1 if records == 1 else len(size.connections) // 2]
            produce = _produce(server.url, form, records, connections, size)
            yield from _profile(server.pid, file, f"{form}-{records}-{connections}", produce)
        for form in _READ:
            yield from _profile(server.pid, file, f"fetch-{form}", _fetch(server.url, form, size))


def _fill(url: str, size: Size) -> None:
    requests = make_requests("arrow", min(10_000, size.pool), 100, keyed=True, most=size.pool)
    with Asker(url) as asker:
        asker.create_topic(_TOPIC)
        asker.create_topic(_READ_TOPIC)
    drive_python(f"{url}/topics/{_READ_TOPIC}", requests, connections=2, seconds=size.seconds)


def _produce(url: str, form: str, records: int, connections: int, size: Size) -> Callable[[], int]:
    drive = GENERATORS[pick_generator(size.seconds)]
    requests = make_requests(form, records, 100, keyed=False, most=size.pool)

    def load() -> int:
        """How many requests were answered."""
        return drive(f"{url}/topics/{_TOPIC}", requests, connections=connections, seconds=size.seconds).answered

    return load


def _fetch(url: str, form: str, size: Size) -> Callable[[], int]:
    def load() -> int:
        """How often the topic was read."""
        with Asker(url) as asker:
            ends = asker.end_offsets(_READ_TOPIC)
        times, until = 0, perf_counter() + size.seconds
        while not times or perf_counter() < until:
            read_all(url, _READ_TOPIC, ends, form, 1 << 20)
            times += 1
        return times

    return load


def _profile(pid: int, file: Path, case: str, load: Callable[[], int]) -> Iterator[Row]:
    load()
    os.kill(pid, signal.SIGUSR1)
    _wait_for(file.with_name(file.name + BEGUN))
    began = perf_counter()
    times = load()
    seconds = perf_counter() - began
    os.kill(pid, signal.SIGUSR1)
    _wait_for(file)
    spent: dict[str, float] = json.loads(file.with_name(file.name + THREADS).read_text())
    loop = spent.get("MainThread", 0.0)
    yield Row(name="http-profile.loop", params={"case": case}, value=loop / seconds, unit="s/s")
    yield from _functions(case, file, times)
    yield from _threads(case, spent)
    file.unlink()


def _functions(case: str, file: Path, times: int) -> Iterator[Row]:
    entries: dict[Any, Any] = vars(pstats.Stats(str(file)))["stats"]
    total = sum(own for _, _, own, _, _ in entries.values())
    for function, (_, calls, own, _, _) in sorted(entries.items(), key=lambda entry: -entry[1][2])[:_SHOWN]:
        params: dict[str, Param] = {"case": case, "at": _describe(*function)}
        also = {"us/request": own / times * 1e6, "calls/request": calls / times}
        yield Row(name="http-profile", params=params, value=100 * own / total, unit="%", also=also)


def _describe(file: str, line: int, name: str) -> str:
    if not line:
        return name
    path = Path(file)
    shown = path.relative_to(PROJECT) if path.is_relative_to(PROJECT) and ".venv" not in file else Path(path.name)
    return f"{shown}:{line} {name}"


def _threads(case: str, spent: dict[str, float]) -> Iterator[Row]:
    total = sum(spent.values())
    for name, seconds in sorted(spent.items(), key=lambda entry: -entry[1])[:_THREADS_SHOWN]:
        if seconds > 0:
            params: dict[str, Param] = {"case": case, "thread": name}
            yield Row(name="http-profile.threads", params=params, value=100 * seconds / total, unit="%")


def _wait_for(file: Path) -> None:
    deadline = time.monotonic() + _MOST_WAIT_S
    while not file.exists():
        if time.monotonic() > deadline:
            raise TimeoutError(f"{file} is not there after {_MOST_WAIT_S} s")
        time.sleep(0.02)
