"""From the acknowledgement of a record to its row in the Delta table, as somebody else's reader sees it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from time import perf_counter

from deltalake import DeltaTable

from benchmarks.records import make_records
from benchmarks.rows import Row, beside, percentile
from benchmarks.sizes import Size
from benchmarks.topics import PARTITIONS
from delta_log.log import Log
from delta_log.model.types import Record

_TOPICS = 8
_BETWEEN_S = 0.15
_TIMEOUT_S = 10


def run(place: Path, size: Size) -> Iterator[Row]:
    """`visible`: from the answer to one record until a `DeltaTable` opened after it counts the record.

    The topics take turns, so that each was idle for longer than the commit interval, and nothing else runs. The
    baseline is what opening such a `DeltaTable` and counting takes by itself, at the same moment.
    """
    topics = min(_TOPICS, size.tries)
    records = make_records(size.tries + topics)
    taken: list[float] = []
    opened: list[float] = []
    with Log.open(place / "root") as log:
        tables: dict[str, str] = {}
        for number in range(topics):
            topic = f"orders-{number}"
            log.create_topic(topic, PARTITIONS)
            _seconds_until_visible(log, topic, log.table_location(topic), records[number])
            tables[topic] = log.table_location(topic)
        time.sleep(1)
        for turn in range(size.tries):
            time.sleep(_BETWEEN_S)
            topic = f"orders-{turn % topics}"
            began = perf_counter()
            _count(tables[topic])
            opened.append((perf_counter() - began) * 1000)
            taken.append(_seconds_until_visible(log, topic, tables[topic], records[topics + turn]) * 1000)
    p50, p99 = percentile(taken, 0.5), percentile(taken, 0.99)
    row = Row(name="visible", params={"tries": size.tries}, value=p50, unit="ms", p50=p50, p99=p99)
    yield beside(row, "opening a DeltaTable", taken, opened)


def _seconds_until_visible(log: Log, topic: str, table: str, record: Record) -> float:
    wanted = _count(table) + 1
    log.append(topic, [record])
    began = perf_counter()
    while _count(table) < wanted:
        if perf_counter() - began > _TIMEOUT_S:
            raise TimeoutError(f"{topic} did not reach its table within {_TIMEOUT_S} s")
    return perf_counter() - began


def _count(table: str) -> int:
    counts = DeltaTable(table).get_add_actions(flatten=True)["num_records"].to_pylist()
    return sum(counts)
