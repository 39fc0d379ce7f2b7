"""A program of its own: writes rows of Spark to topics while the Python workers of its executors are killed.

Its session runs a failed task again, up to four times, which that of the other tests does not. Arguments are the URL of
a server, the root and a folder; it prints what it killed as one line of JSON.
"""

from __future__ import annotations

import json
import os
import re
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from jobs.source.source import register
from jobs.spark.session import build_session
from tests.support.processes import command, descendants, parents
from tests.support.serving import wait_for

#: In so many rows an executor hands them to its worker, which sends each lot in a request of its own.
LOT = 50
#: So often a task is run, whatever it fails of, before its query fails.
ATTEMPTS = 8
ROWS = 10_000


def main(url: str, root: str, folder: str) -> None:
    extra = {"spark.sql.execution.arrow.maxRecordsPerBatch": str(LOT), "spark.sql.warehouse.dir": folder}
    spark = build_session("killed writes", master=f"local[2,{ATTEMPTS}]", extra=extra)
    register(spark)
    killed: dict[str, Any] = {}
    with killing(lambda: end_of(url, "batch"), [workers, everything], killed.setdefault("batch", []), LOT):
        rows = spark.range(0, ROWS, 1, 2).selectExpr("CAST(id AS STRING) AS value")
        rows.write.format("lakelog").options(server=url, topic="batch").mode("append").save()
    checkpoint = Path(folder, "checkpoint")
    with killing(lambda: staged(url), [workers], killed.setdefault("stream", []), 1):
        killed["failures"] = copy(spark, root, url, checkpoint)
    for name in ("0", ".0.crc"):
        (checkpoint / "commits" / name).unlink(missing_ok=True)
    killed["staged"] = staged(url)
    copy(spark, root, url, checkpoint, minPartitions="5")
    killed["staged again"] = staged(url) - killed["staged"]
    sys.stdout.write(f"{json.dumps(killed)}\n")
    spark.stop()


def copy(spark: SparkSession, root: str, url: str, checkpoint: Path, **cut: str) -> int:
    """All that is in a topic now, in one batch of a stream; or the same again, where it was not committed.

    Spark keeps idle Python workers to use again. Where their daemon was killed it may stumble over one when it plans a
    write, before any row is read: the query fails, and is started again. Answers how often.
    """
    source: DataFrame = (
        spark.readStream.format("lakelog").options(subscribe="from", startingOffsets="earliest", **cut).load(root)
    )
    sink = source.writeStream.format("lakelog").options(server=url, topic="stream", checkpointLocation=str(checkpoint))
    for failures in range(10):
        try:
            assert sink.trigger(availableNow=True).start().awaitTermination(100)
        except StreamingQueryException:
            continue
        return failures
    raise RuntimeError("the query failed whenever it was started")


@contextmanager
def killing(
    reached: Callable[[], int], whom: list[Callable[[], list[int]]], killed: list[int], step: int
) -> Iterator[None]:
    """Kill, some steps after the block began, and some later again; the block must outlive that."""
    failed: list[BaseException] = []

    def run() -> None:
        try:
            for choose in whom:
                start = reached()
                wait_for(lambda start=start: reached() >= start + 5 * step, "rows", 120)
                pids = choose()
                for pid in pids:
                    with suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
                killed.append(len(pids))
        except BaseException as error:  # noqa: BLE001 - told below
            failed.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    yield
    thread.join()
    assert not failed, failed


def end_of(url: str, topic: str, partition: int = 0) -> int:
    answer = httpx.get(f"{url}/topics/{topic}/partitions/{partition}/offsets", timeout=60)
    return int(answer.raise_for_status().json()["end_offset"])


def staged(url: str) -> int:
    """How many requests a server has had that are part of transactions."""
    sheet = httpx.get(f"{url}/metrics", timeout=60).raise_for_status().text
    found = re.findall(
        r'^lakelog_http_requests_total\{(?=[^}]*route="produce")(?=[^}]*status="202").*\} (\d+)', sheet, re.MULTILINE
    )
    return sum(map(int, found))


def workers() -> list[int]:
    """The forks of Spark's daemons for Python, which are children of our JVM."""
    known, daemons = parents(), everything()
    return [pid for pid in daemons if known.get(pid) in daemons]


def everything() -> list[int]:
    """And the daemons themselves."""
    return sorted(pid for pid in descendants(os.getpid()) if b"pyspark.daemon" in command(pid))


if __name__ == "__main__":
    main(*sys.argv[1:])
