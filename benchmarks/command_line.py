"""The command line: how soon it says its help, and its lines in and out beside the Python clients."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from time import perf_counter
from typing import Final

from benchmarks.http_bodies import make_orders
from benchmarks.http_servers import Asker, ServerProcess, lakelog_command
from benchmarks.processes import run_fresh
from benchmarks.rows import Param, Row, Target, beside, judge, over_turns
from benchmarks.sizes import Size

_VALUE_BYTES: Final = 100
_HELPS: Final = 5
HELP: Final = Target("value", "<=", 150)
MOST_OF_IT: Final = Target("ratio", ">=", 0.7)


def run(place: Path, size: Size) -> Iterator[Row]:
    """`cli-help`: from the shell to the end of `lakelog --help`, the shortest of a few.

    `cli-produce`: a file of lines of 100 bytes, beside a Producer that is given the same lines. `cli-consume`: the same
    back into a file, which must be equal to the first, beside a Consumer of a new group. One partition, and a fresh
    process each time; what a process needs to begin is not counted.
    """
    yield judge(over_turns([_help() for _ in range(max(size.turns, 3))], "ms", name="cli-help"), HELP)
    lines = place / "lines"
    pool = [
        (record.value or b"").replace(b"\n", b" ") + b"\n" for record in make_orders(10_000, _VALUE_BYTES, keyed=False)
    ]
    count = max(len(pool), size.stored)
    with lines.open("wb") as out:
        # Numbered, so that none can stand for another.
        out.writelines(b"%010d" % number + pool[number % len(pool)][10:] for number in range(count))
    produced: list[float] = []
    sent: list[float] = []
    consumed: list[float] = []
    read: list[float] = []
    with ServerProcess(lakelog_command(place / "root"), place / "server.log") as server, Asker(server.url) as asker:
        for turn in range(size.turns):
            topics = [f"{by}-{turn}" for by in ("command", "client")]
            for topic in topics:
                asker.create_topic(topic, 1)
            produced.append(count / run_fresh(_run_command, server.url, ["produce", topics[0], str(lines)], ""))
            sent.append(count / run_fresh(_send_lines, server.url, topics[1], str(lines)))
            for topic in topics:
                asker.wait_tabled(topic)
            back = place / "back"
            consumed.append(
                count / run_fresh(_run_command, server.url, ["consume", topics[0], "--max", str(count)], str(back))
            )
            read.append(count / run_fresh(_read_all, server.url, topics[1], count))
            if back.read_bytes() != lines.read_bytes():
                raise RuntimeError("what came back is not what was sent")
            for topic in topics:
                asker.delete_topic(topic)
    params: dict[str, Param] = {"records": count}
    row = over_turns(produced, "records/s", name="cli-produce", params=params)
    yield judge(beside(row, "client-producer", produced, sent), MOST_OF_IT)
    row = over_turns(consumed, "records/s", name="cli-consume", params=params)
    yield judge(beside(row, "client-consumer", consumed, read), MOST_OF_IT)


def _help() -> float:
    taken: list[float] = []
    for _ in range(_HELPS):
        began = perf_counter()
        subprocess.run([sys.executable, "-m", "lakelog", "--help"], check=True, stdout=subprocess.DEVNULL)
        taken.append((perf_counter() - began) * 1000)
    return min(taken)


def _run_command(url: str, words: list[str], into: str) -> float:
    """Seconds."""
    import os  # noqa: PLC0415 - in the process that needs it

    import lakelog  # noqa: PLC0415
    from lakelog.cli.main import main  # noqa: PLC0415

    _ = lakelog.Admin, lakelog.Producer, lakelog.Consumer
    os.dup2(os.open(into or os.devnull, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), 1)
    began = perf_counter()
    code = main([*words, "--server", url])
    if code:
        raise RuntimeError(f"{' '.join(words)} ended with {code}")
    return perf_counter() - began


def _send_lines(url: str, topic: str, file: str) -> float:
    from lakelog import Producer  # noqa: PLC0415

    lines = Path(file).read_bytes().split(b"\n")[:-1]
    began = perf_counter()
    with Producer({"bootstrap.servers": url}) as producer:
        for line in lines:
            producer.send(topic, line)
        producer.flush()
    return perf_counter() - began


def _read_all(url: str, topic: str, count: int) -> float:
    from lakelog import Consumer  # noqa: PLC0415

    began, seen = perf_counter(), 0
    settings = {"bootstrap.servers": url, "group.id": topic, "max.poll.records": 10_000}
    with Consumer(settings) as consumer:
        consumer.subscribe([topic])
        while seen < count:
            seen += len(consumer.poll(1))
    return perf_counter() - began
