"""A topic read whole by Spark: as a Delta table, and by the source `lakelog`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from time import perf_counter
from typing import Any, Final

from benchmarks.http_servers import ServerProcess, lakelog_command
from benchmarks.jobs_running import spark_session
from benchmarks.jobs_tables import PARTITIONS, TOPIC
from benchmarks.records import make_records
from benchmarks.rows import Param, Row, Target, beside, judge, over_turns
from benchmarks.sizes import Size
from benchmarks.topics import fill_topic
from delta_log.log import Log

ROWS: Final = Target("ratio", ">=", 0.9)
COUNTS: Final = Target("ratio", ">=", 0.4)
#: Of the two, what `by` is judged; what goes over HTTP is beside no files.
_NARROW: Final = "path, offset"
_MEMORY: Final = "memory"
_JUDGED: Final = ("path", "path+server", _NARROW)
#: Rounds that go before those that count: a JVM has to warm up.
_WARM: Final = 2
#: So that a query takes longer than planning it.
_TIMES: Final = 2
#: Rows that a source in memory has again and again.
_FEW: Final = 10_000


def run(place: Path, size: Size) -> Iterator[Row]:
    """A topic of 4 partitions is read by turns: natively (`format("delta")`), and by the source in three ways.

    By `path` it reads the files, by `server` all comes over HTTP as Arrow, by `path+server` it reads the files and asks
    the server, which runs beside all of them, what is above; `memory` is a source in Python of as many rows that reads
    nothing, but has them already: nobody's is faster. `jobs-scan`: records a second of whole rows into
    `format("noop")`; `jobs-scan.count`: of `count()`, which the table's log answers natively without a look at a file,
    while Spark does not tell a source in Python that it wants no column; `path, offset` is one that was told so by its
    schema. Medians of five rounds or more; two go before them that are not counted.
    """
    from benchmarks.jobs_floor import memory_frame  # noqa: PLC0415 - needs Spark
    from jobs.source.source import register  # noqa: PLC0415 - likewise

    root, count = place / "root", _TIMES * size.stored
    with Log.open(root) as log:
        fill_topic(log, TOPIC, make_records(size.pool), count)
    with ServerProcess(lakelog_command(root), place / "server.log") as server, spark_session(place) as spark:
        register(spark)
        native = spark.read.format("delta").load(str(root / "topics" / TOPIC))
        reader = spark.read.format("lakelog").option("subscribe", TOPIC)
        frames = {
            "native": native,
            "path": reader.load(str(root)),
            "path+server": reader.option("server", server.url).load(str(root)),
            "server": spark.read.format("lakelog").option("subscribe", TOPIC).option("server", server.url).load(),
        }
        few = reader.load(str(root)).limit(min(_FEW, count // PARTITIONS)).toArrow()
        times = count // PARTITIONS // few.num_rows
        memory = {_MEMORY: memory_frame(spark, few, PARTITIONS, times)}
        yield from _compare("jobs-scan", frames | memory, _write, ROWS, count, size)
        frames[_NARROW] = (
            spark.read.schema("offset BIGINT").format("lakelog").option("subscribe", TOPIC).load(str(root))
        )
        memory = {f"{_MEMORY}, offset": memory_frame(spark, few.select(["offset"]), PARTITIONS, times)}
        yield from _compare("jobs-scan.count", frames | memory, _count, COUNTS, count, size)


def _compare(
    name: str, frames: dict[str, Any], read: Callable[[Any, int], None], target: Target, count: int, size: Size
) -> Iterator[Row]:
    rates: dict[str, list[float]] = {by: [] for by in frames}
    for turn in range(-_WARM if size.turns > 1 else 0, 2 * size.turns - 1):
        for by, frame in frames.items():
            began = perf_counter()
            read(frame, count)
            if turn >= 0:
                rates[by].append(count / (perf_counter() - began))
    natives = rates["native"]
    for by, measured in rates.items():
        params: dict[str, Param] = {"by": by, "records": count, "partitions": PARTITIONS}
        row = over_turns(measured, "records/s", name=name, params=params)
        if by != "native":
            row = beside(row, "native", measured, natives)
        yield judge(row, target) if by in _JUDGED else row


def _write(frame: Any, _: int) -> None:
    frame.write.format("noop").mode("overwrite").save()


def _count(frame: Any, count: int) -> None:
    found = frame.count()
    if found != count:
        raise RuntimeError(f"{count} records are stored, and {found} were counted")
