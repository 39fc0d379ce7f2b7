"""Discovery at the start of a run: the topic, the table, its progress, and the resulting plan. It changes nothing."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from pyspark.errors import AnalysisException
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention
from pyspark.sql.types import StructType

from delta_log.model.errors import InvalidRequest
from jobs.foundation.result import one_sentence
from jobs.materialize.commit_marks import Mark, sink_of
from jobs.materialize.latest_per_key import quoted
from jobs.materialize.output_schema import Shape, decide_shape
from jobs.materialize.schemas import SAMPLE, as_sample, infer
from jobs.materialize.target import Stored, Target
from jobs.runner.stream_job import StreamRun
from jobs.source.errors import UnknownTopics
from jobs.source.positions import Range, parse_numbers
from jobs.source.rest_client import OutOfRange
from jobs.source.server import Server

__all__ = ["There", "check_topic", "look", "refusing", "show"]

Ranges = Mapping[int, Range]


@dataclass(frozen=True, slots=True)
class There:
    """Findings of a run. `starts` has every partition of the topic."""

    topic: str
    topic_id: str | None
    sink: str
    ranges: Ranges
    shape: Shape
    stored: Stored | None
    starts: dict[int, int]


def look(run: StreamRun, server: Server) -> There:
    options = run.options
    (topic,) = options.topic
    if topic not in server.topics():
        raise UnknownTopics([topic], server.url)
    view = server.describe(topic)
    ranges = {number: server.range(topic, number) for number in range(view.partitions)}
    target = Target(run.spark, options.table)
    sink, topic_id = sink_of(server.cluster_id(), topic), view.id
    with refusing(options.table):
        table = target.schema() if target.exists() else None
        shape = decide_shape(options, table, lambda: infer(run.spark, _sample(server, topic, ranges)))
        stored = None if table is None else target.load_mark(sink)
        if stored is not None:
            check_topic(topic, stored.mark.topic_id, topic_id)
            starts = _starts(stored.mark, ranges)
        else:
            starts = _begin(run, topic, ranges, table)
    return There(topic, topic_id, sink, ranges, shape, stored, starts)


def show(run: StreamRun, there: There) -> Iterator[str]:
    options, shape = run.options, there.shape
    if shape.is_new:
        yield f"make table {options.table}: {shape.table.toDDL()}"
    elif shape.added:
        yield f"add to table {options.table}: {', '.join(shape.added)}"
    else:
        yield f"table {options.table}"
    how = f"merge by {', '.join(shape.how.by)}" if shape.how.by else "append"
    yield f"topic {there.topic}: {options.format}, {how}"
    why = "where the table begins" if there.stored is None else f"behind batch {there.stored.mark.batch}"
    for number, of in there.ranges.items():
        yield f"partition {number}: from {there.starts[number]} ({why}) to {of.end}"
    yield f"group {options.group}, dead letters to {options.dead_letters}"


def _starts(mark: Mark, ranges: Ranges) -> dict[int, int]:
    """Start offsets by a mark; a new partition begins at its log start offset."""
    return {number: mark.next.get(number, of.start) for number, of in ranges.items()}


def _begin(run: StreamRun, topic: str, ranges: Ranges, table: StructType | None) -> dict[int, int]:
    where: str = run.options.begin or "earliest"
    if where in {"earliest", "latest"}:
        return {number: of.start if where == "earliest" else of.end for number, of in ranges.items()}
    if where == "table":
        found = {} if table is None else _highest(run, topic, table)
    else:
        given = parse_numbers("--begin", where, least=0, what="an offset")
        found = {of.partition: offset for of, offset in given.items() if of.topic == topic}
        odd = [str(of) for of in given if of.topic != topic or of.partition not in ranges]
        if odd:
            raise InvalidRequest(f"--begin names {odd[0]}, and that is not read")
    return {number: found.get(number, of.start) for number, of in ranges.items()}


def _highest(run: StreamRun, topic: str, table: StructType) -> dict[int, int]:
    """Next offset by partition, after the highest one in rows of the table."""
    names = ("topic", "partition", "offset")
    columns = names if set(names) <= set(table.names) else tuple(f"_{name}" for name in names)
    if not set(columns) <= set(table.names):
        raise InvalidRequest(f"--begin table: the table has no {', '.join(columns)}")
    of_topic, partition, offset = (F.col(quoted(name)) for name in columns)
    target = Target(run.spark, run.options.table)
    rows = target.rows().where(of_topic == topic).groupBy(partition).agg(F.max(offset) + 1).collect()
    return {row[0]: row[1] for row in rows}


def check_topic(topic: str, followed: str | None, found: str | None) -> None:
    """Refuse to go on with another topic of the name, as far as the ids are known."""
    if followed is not None and found is not None and followed != found:
        raise InvalidRequest(
            f"the table follows another topic that was called {topic!r}: take another table for this one"
        )


def _sample(server: Server, topic: str, ranges: Ranges) -> list[str]:
    """Sample the first records of each partition."""
    found: list[str] = []
    most = max(1, SAMPLE // max(1, len(ranges)))
    for number, of in ranges.items():
        try:
            batches = server.read(topic, number, of.start, min(of.end, of.start + most), ("offset", "value"))
            values = [value for batch in batches for value in batch.column("value").to_pylist()]
        except OutOfRange:
            continue
        found += as_sample(values)
    return found


@contextmanager
def refusing(table: str) -> Generator[None]:
    """Turn Delta's refusal of a location into InvalidRequest."""
    try:
        yield
    except AnalysisException as error:
        said: Any = error.getMessage() or one_sentence(error)
        raise InvalidRequest(f"--table {table}: {' '.join(str(said).split())}") from error
