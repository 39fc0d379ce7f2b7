"""Two hundred topics that are all written to: the budget of files, and how far the tables are behind."""

from __future__ import annotations

import logging
import threading
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter
from typing import Final

from benchmarks.records import make_records
from benchmarks.rows import Param, Row, Target, judge, percentile
from benchmarks.sizes import Size
from delta_log.log import Log
from delta_log.model.types import Record
from delta_log.startup.open import Settings

_PARTITIONS: Final = 8
#: So many seconds of the budget may be spent at once: what a while without load has saved.
_SAVED_S: Final = 1.0
_EVERY_S: Final = 0.1
_DRAIN_S: Final = 60.0
#: A round is a commit to every table, at the pace of the budget. The newest commit waits for one, and for its turn.
LAG_ROUNDS: Final = 2.0


class _Watch:
    """What whoever watches the log is told: the greatest lag, bytes outside of the tables, live files of a topic."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self.lag_s = 0.0
        self.untabled = 0
        self.files = 0

    @contextmanager
    def watched(self) -> Generator[None]:
        stop = threading.Event()
        thread = threading.Thread(target=self._watch, args=(stop,), daemon=True)
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join()

    def look(self) -> float:
        """The lag now."""
        seen = self._log.statistics()
        lag = max((topic.lag_s for topic in seen.topics), default=0.0)
        self.lag_s = max(self.lag_s, lag)
        self.untabled = max(self.untabled, seen.untabled_bytes)
        self.files = max([self.files, *(topic.files for topic in seen.topics)])
        return lag

    def _watch(self, stop: threading.Event) -> None:
        while not stop.wait(_EVERY_S):
            self.look()


def run(place: Path, size: Size) -> Iterator[Row]:
    """Topics of 8 partitions; a caller gives each partition of one topic after the other a record, without a pause.

    `busy.files`: files that commits of appends named, a second, while the load lasts; the budget is
    `files_per_second`, and what a second of quiet has saved. `busy.lag`: the greatest age of a record that is not in
    its table, as `Log.statistics` tells it, in rounds: a round is one commit to each table at the pace of the budget,
    and no less than the commit interval. `busy.live`: the most live files of one topic. `busy.append`: requests of 8
    records. `busy.drain`: seconds until all is in the tables when the load ends.
    """
    logging.disable(logging.WARNING)
    settings = Settings()
    budget = settings.files_per_second
    params: dict[str, Param] = {"topics": size.busy_topics, "partitions": _PARTITIONS}
    requests = [
        [Record(each.value, each.key, partition=partition) for partition in range(_PARTITIONS)]
        for each in make_records(1_000)
    ]
    with Log.open(place / "root", settings=settings) as log:
        topics = [f"busy-{number:03d}" for number in range(size.busy_topics)]
        for topic in topics:
            log.create_topic(topic, _PARTITIONS)
        watch = _Watch(log)
        with watch.watched():
            took, seconds, files = _load(log, topics, requests, size.sustained_s)
            began = perf_counter()
            while watch.look() and perf_counter() - began < _DRAIN_S:
                threading.Event().wait(_EVERY_S)
            drained = perf_counter() - began
    allowed = budget * (seconds + _SAVED_S) / seconds
    written = files / seconds
    yield judge(Row(name="busy.files", params=params, value=written, unit="files/s"), Target("value", "<=", allowed))
    round_s = max(1.0, size.busy_topics * _PARTITIONS / budget)
    row = Row(name="busy.lag", params=params, value=watch.lag_s / round_s, unit="rounds")
    row.also = {"s": watch.lag_s, "MB outside": watch.untabled / 1e6}
    yield judge(row, Target("value", "<=", LAG_ROUNDS))
    yield Row(name="busy.live", params=params, value=watch.files, unit="files")
    p50, p99 = percentile(took, 0.5), percentile(took, 0.99)
    row = Row(name="busy.append", params=params, value=p50, unit="ms", p50=p50, p99=p99)
    row.also = {"records/s": len(took) * _PARTITIONS / seconds}
    yield row
    yield judge(Row(name="busy.drain", params=params, value=drained, unit="s"), Target("value", "<=", 2 * round_s))


def _load(log: Log, topics: list[str], requests: list[list[Record]], seconds: float) -> tuple[list[float], float, int]:
    before = _committed_files(log)
    took: list[float] = []
    began = perf_counter()
    while (now := perf_counter()) < began + seconds or len(took) < len(topics):
        log.append(topics[len(took) % len(topics)], requests[len(took) % len(requests)])
        took.append((perf_counter() - now) * 1000)
    ended = perf_counter() - began
    return took, ended, _committed_files(log) - before


def _committed_files(log: Log) -> int:
    """Each request has a record for each partition: so every commit of an append names as many files."""
    return log.statistics().commit_seconds.count * _PARTITIONS
