"""From the acknowledgement of a record to the function that a streaming query hands it to."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter
from typing import Any, Final, Self

from benchmarks.http_servers import Asker, ServerProcess, lakelog_command
from benchmarks.jobs_running import spark_session
from benchmarks.jobs_tables import PARTITIONS, TOPIC
from benchmarks.rows import Row, Target, judge, percentile
from benchmarks.sizes import Size

NATIVE: Final = Target("p50", "<=", 1_500.0)
SOURCE: Final = Target("p50", "<=", 500.0)
_EVERY_S: Final = 0.02
_TIMEOUT_S: Final = 60
#: Batches that go before those that count: the first ones of a query take seconds.
_WARM: Final = 3
#: Records that count, however slow the producer is.
_LEAST: Final = 5

At = tuple[int, int]


class _Trickle:
    """One producer, one record a request; when each was acknowledged, by partition and offset."""

    def __init__(self, url: str) -> None:
        self.acknowledged: dict[At, float] = {}
        self.failure: BaseException | None = None
        self._url = url
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def count_since(self, began: float) -> int:
        return sum(when >= began for when in list(self.acknowledged.values()))

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        try:
            with Asker(self._url) as asker:
                began, number = perf_counter(), 0
                while not self._stop.wait(max(0.0, began + number * _EVERY_S - perf_counter())):
                    at = _produce(asker, number)
                    self.acknowledged[at] = perf_counter()
                    number += 1
        except BaseException as error:  # noqa: BLE001 - told by whoever waits
            self.failure = error


class _Seen:
    """When the function had the rows of a batch, and when it was called for them."""

    def __init__(self) -> None:
        self.batches = 0
        self.called: dict[At, float] = {}
        self.had: dict[At, float] = {}

    def __call__(self, batch: Any, _: int) -> None:
        called = perf_counter()
        rows = [(row.partition, row.offset) for row in batch.select("partition", "offset").collect()]
        had = perf_counter()
        self.called |= dict.fromkeys(rows, called)
        self.had |= dict.fromkeys(rows, had)
        self.batches += 1


def run(place: Path, size: Size) -> Iterator[Row]:
    """A producer sends 50 records a second, one a request, and a query hands them to a function (`foreachBatch`).

    The topic has 4 partitions, the server runs beside, and the query begins a batch as soon as it can.
    `jobs-latency`: milliseconds from the acknowledgement of a record until the function has it, having collected the
    batch, and beside that until the function was called. `by` is `native` (`format("delta")` on the topic's table, so
    commits of the server are waited for), or `server` or `path+server` (the source `lakelog`; with both it asks at each
    plan which topic that is); each runs alone.
    """
    from jobs.source.source import register  # noqa: PLC0415 - needs Spark

    root = place / "root"
    with ServerProcess(lakelog_command(root), place / "server.log") as server, spark_session(place) as spark:
        register(spark)
        with Asker(server.url) as asker:
            asker.create_topic(TOPIC)
            for partition in range(PARTITIONS):
                _produce(asker, partition)
            asker.wait_tabled(TOPIC)
        table = str(root / "topics" / TOPIC)
        streams = {
            "native": spark.readStream.format("delta").option("skipChangeCommits", "true").load(table),
            "server": _source(spark, server.url),
            "path+server": _source(spark, server.url, path=str(root)),
        }
        for by, frame in streams.items():
            yield judge(_watch(by, frame, server.url, place, size), NATIVE if by == "native" else SOURCE)


def _source(spark: Any, url: str, **given: str) -> Any:
    options = {"server": url, "subscribe": TOPIC, "startingOffsets": "latest", **given}
    return spark.readStream.format("lakelog").options(**options).load()


def _watch(by: str, frame: Any, url: str, place: Path, size: Size) -> Row:
    seen = _Seen()
    with _streaming(frame, seen, place / f"checkpoint-{by}") as query, _Trickle(url) as trickle:
        _wait(query, trickle, lambda: seen.batches >= _WARM and trickle.acknowledged.keys() & seen.had.keys(), by)
        began = perf_counter()
        time.sleep(size.sustained_s)
        _wait(query, trickle, lambda: trickle.count_since(began) >= _LEAST, by)
        ended = perf_counter()
        trickle.stop()
        wanted = [at for at, when in list(trickle.acknowledged.items()) if began <= when < ended]
        _wait(query, trickle, lambda: seen.had.keys() >= set(wanted), by)
    taken, called = (
        [(times[at] - trickle.acknowledged[at]) * 1000 for at in wanted] for times in (seen.had, seen.called)
    )
    p50, p99 = percentile(taken, 0.5), percentile(taken, 0.99)
    row = Row(name="jobs-latency", params={"by": by, "records": len(wanted)}, value=p50, unit="ms", p50=p50, p99=p99)
    row.also["ms p50 until it was called"] = percentile(called, 0.5)
    return row


@contextmanager
def _streaming(frame: Any, function: Callable[[Any, int], None], checkpoint: Path) -> Generator[Any]:
    writer = frame.writeStream.foreachBatch(function).option("checkpointLocation", str(checkpoint))
    query = writer.trigger(processingTime="0 seconds").start()
    try:
        yield query
    finally:
        query.stop()


def _wait(query: Any, trickle: _Trickle, is_so: Callable[[], object], by: str) -> None:
    until = perf_counter() + _TIMEOUT_S
    while not is_so():
        failure = query.exception() or trickle.failure
        if failure is not None:
            raise RuntimeError(f"the stream by {by} failed: {failure}")
        if perf_counter() > until:
            raise TimeoutError(f"the stream by {by} does not get on")
        time.sleep(0.05)


def _produce(asker: Asker, number: int) -> At:
    partition = number % PARTITIONS
    path = f"/topics/{TOPIC}/partitions/{partition}"
    headers = {"Content-Type": "application/vnd.kafka.json.v2+json"}
    status, body = asker.ask("POST", path, json.dumps({"records": [{"value": number}]}).encode(), headers)
    if status != 200:  # noqa: PLR2004 - as HTTP has it
        raise RuntimeError(f"the server answered {status}: {body!r}")
    return partition, json.loads(body)["offsets"][0]["offset"]
