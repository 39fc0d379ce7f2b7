"""Reading over HTTP by offset: what is in the table's files, and what was just produced."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from time import perf_counter
from typing import Final

from benchmarks.baselines import read_with_pyarrow
from benchmarks.http_bodies import MEDIA, make_orders, make_requests
from benchmarks.http_generator import drive_python
from benchmarks.http_load import MB
from benchmarks.http_reader import Reader
from benchmarks.http_servers import Asker, ServerProcess, lakelog_command
from benchmarks.rows import Param, Row, Target, beside, judge, over_turns
from benchmarks.sizes import Size
from benchmarks.topics import fill_topic, topic_files
from delta_log.log import Log

FORMS: Final = ("ndjson", "binary", "json", "arrow")
#: The default, and what somebody asks for who wants much.
_ANSWERS: Final = (1 << 20, 16 << 20)
_VALUE_BYTES: Final = 100
_TOPIC: Final = "orders"
#: They fit into the memory that the server keeps for readers who follow.
_MOST_TAIL: Final = 200_000
_PER_REQUEST: Final = 10_000
JSON: Final = Target("value", ">=", 500_000)
ARROW: Final = Target("ratio", ">=", 0.5)


def run(place: Path, size: Size) -> Iterator[Row]:
    """Records of 116 bytes with their keys, over one connection that asks for the next range when one has come.

    `http-fetch`: records a second; `max_bytes` is what is asked for at once. From `files`: a server that was started
    behind the filling, so from parquet; each turn all partitions from 0 to their ends, in turn with pyarrow's own read
    of the same files on all cores. From `tail`: a server that has just been sent the records.
    """
    root = place / "root"
    orders = make_orders(min(size.pool, size.stored), _VALUE_BYTES, keyed=True)
    with Log.open(root) as log:
        fill_topic(log, _TOPIC, orders, size.stored)
    files = topic_files(root, _TOPIC)
    with ServerProcess(lakelog_command(root), place / "server.log") as server:
        yield from _fetch(server.url, "files", files, size)
    with ServerProcess(lakelog_command(place / "tail"), place / "server.log") as server:
        _fill(server.url, size)
        yield from _fetch(server.url, "tail", [], size)


def _fill(url: str, size: Size) -> None:
    requests = make_requests("arrow", min(_PER_REQUEST, size.pool), _VALUE_BYTES, keyed=True, most=size.pool)
    with Asker(url) as asker:
        asker.create_topic(_TOPIC)
        while sum(asker.end_offsets(_TOPIC)) < min(size.stored, _MOST_TAIL):
            if drive_python(f"{url}/topics/{_TOPIC}", requests, connections=1, seconds=0).refused:
                raise RuntimeError("the server refused what was to be read")


def _fetch(url: str, source: str, files: Sequence[Path], size: Size) -> Iterator[Row]:
    bases: list[float] = []
    rates: dict[tuple[str, int], list[float]] = {(form, most): [] for form in FORMS for most in _ANSWERS}
    sizes: dict[tuple[str, int], float] = {}
    with Asker(url) as asker:
        ends = asker.end_offsets(_TOPIC)
    for _ in range(size.turns + 1):
        if files:
            bases.append(read_with_pyarrow(files, threads=True))
        for kind, seen in rates.items():
            rate, sizes[kind] = read_all(url, _TOPIC, ends, *kind)
            seen.append(rate)
    for taken in (bases, *rates.values()):
        del taken[:1]  # the first time everything is new
    if files:
        yield over_turns(bases, "records/s", name="http.pyarrow", params={"files": len(files)})
    for (form, most), seen in rates.items():
        params: dict[str, Param] = {"form": form, "from": source, "max_bytes": most, "records": sum(ends)}
        row = over_turns(seen, "records/s", name="http-fetch", params=params)
        row.also["MB/s"] = row.value * sizes[form, most] / MB
        yield _judge(row, form, seen, bases)


def _judge(row: Row, form: str, rates: Sequence[float], bases: Sequence[float]) -> Row:
    if bases:
        row = beside(row, "pyarrow, all cores", rates, bases)
    if form != "arrow":
        return judge(row, JSON)
    return judge(row, ARROW) if bases else row


def read_all(url: str, topic: str, ends: Sequence[int], form: str, most: int) -> tuple[float, float]:
    """Records a second, and bytes a record, of all partitions from the beginning."""
    read = counted = size = 0
    with Reader(url) as reader:
        began = perf_counter()
        for partition in range(len(ends)):
            offset = 0
            while offset < ends[partition]:
                path = f"/topics/{topic}/partitions/{partition}/records?offset={offset}&max_bytes={most}"
                answer = reader.get(path, MEDIA[form], lines=form == "ndjson")
                following = int(answer.field("lakelog-next-offset"))
                read, offset = read + following - offset, following
                counted, size = counted + answer.lines, size + answer.size
        seconds = perf_counter() - began
    if form == "ndjson" and counted != read:
        raise RuntimeError(f"{read} records were read, in {counted} lines")
    return read / seconds, size / read
