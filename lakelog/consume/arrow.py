"""Arrow batches of records. Only this module imports Arrow, and only on demand."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from lakelog.consume.record_run import RecordRun, find_runs
from lakelog.consume.shapes import ConsumerRecord, Header
from lakelog.foundation.errors import OutcomeUnknown
from lakelog.foundation.topic_partition import TopicPartition

if TYPE_CHECKING:
    import pyarrow as pa

_MICROSECONDS = 1_000
_ALWAYS = ("topic", "partition", "offset", "timestamp")
_SHOWN = 300


@lru_cache(1)
def load_arrow() -> Any:
    """Import pyarrow; raises ImportError with the command that installs it."""
    try:
        import pyarrow  # noqa: ICN001, PLC0415 - only batches need it
        import pyarrow.ipc  # noqa: PLC0415  # pyright: ignore[reportUnusedImport] - likewise
    except ImportError as error:
        raise ImportError("batches need Arrow: pip install pyarrow", name="pyarrow") from error
    return pyarrow


def load_pandas() -> None:
    """Import pandas; raises ImportError with the command that installs it."""
    try:
        import pandas  # noqa: F401, ICN001, PLC0415  # pyright: ignore - only poll_pandas needs it
    except ImportError as error:
        raise ImportError("poll_pandas needs pandas: pip install pandas pyarrow", name="pandas") from error


@lru_cache(1)
def batch_schema() -> Any:
    """Arrow schema of the server's batches."""
    arrow = load_arrow()
    header = arrow.struct([arrow.field("key", arrow.string()), arrow.field("value", arrow.binary())])
    return arrow.schema(
        [
            ("topic", arrow.dictionary(arrow.int32(), arrow.string())),
            ("partition", arrow.int32()),
            ("offset", arrow.int64()),
            ("timestamp", arrow.timestamp("us", "UTC")),
            ("key", arrow.binary()),
            ("value", arrow.binary()),
            ("headers", arrow.list_(arrow.field("element", header))),
        ]
    )


class Batch:
    """A run of records as an Arrow batch."""

    __slots__ = ("batch",)

    def __init__(self, batch: pa.RecordBatch) -> None:
        self.batch: Any = batch

    @property
    def first(self) -> int:
        return self._offset(0)

    @property
    def last(self) -> int:
        return self._offset(len(self) - 1)

    def __len__(self) -> int:
        return self.batch.num_rows

    def part(self, begin: int, end: int | None = None) -> Batch:
        return Batch(self.batch.slice(begin, None if end is None else max(0, end - begin)))

    def index_of(self, offset: int) -> int:
        return bisect_left(range(len(self)), offset, key=self._offset)

    def rows(self) -> list[ConsumerRecord]:
        column = self.batch.column
        times = column("timestamp").cast(load_arrow().int64()).to_pylist()
        names = ("topic", "partition", "offset", "key", "value", "headers")
        return [
            ConsumerRecord(topic, partition, offset, time // _MICROSECONDS, key, value, _headers(headers))
            for time, topic, partition, offset, key, value, headers in zip(
                times, *(column(name).to_pylist() for name in names), strict=True
            )
        ]

    def _offset(self, place: int) -> int:
        return self.batch.column("offset")[place].as_py()


def read_batches(body: bytes) -> list[tuple[TopicPartition, RecordRun]]:
    """Runs of records by partition, in the order of the answer; nothing is copied."""
    arrow = load_arrow()
    found: list[tuple[TopicPartition, RecordRun]] = []
    try:
        for batch in _sound_batches(body):
            topics, partitions = batch.column("topic"), batch.column("partition")
            runs = find_runs(
                batch.num_rows,
                lambda place, one=topics, other=partitions: (one[place].as_py(), other[place].as_py()),
            )
            found += [(TopicPartition(*key), Batch(batch.slice(begin, end - begin))) for key, begin, end in runs]
    except (arrow.ArrowInvalid, ValueError) as error:
        raise OutcomeUnknown("reading records", f"the answer cannot be read: {error}") from None
    return found


def _sound_batches(body: bytes) -> Iterator[Any]:
    """Validated batches of an answer; other columns than those of records are rejected before Arrow reads them."""
    from lakelog.foundation.arrow_stream import ArrowStream, Limits, Whole  # noqa: PLC0415 - it needs Arrow

    expected = batch_schema()
    stream = ArrowStream(Whole(body), Limits(bytes=len(body), batches=len(body), nulls=0))
    if not stream.schema.equals(expected):
        raise ValueError(f"its columns are {', '.join(map(str, stream.schema))[:_SHOWN]}")
    for batch in stream:
        batch.validate(full=True)
        if any(batch.column(name).null_count for name in _ALWAYS) or batch.column("topic").dictionary.null_count:
            raise ValueError(f"{', '.join(_ALWAYS)} are of every record")
        yield batch


def table_of(stretches: Sequence[RecordRun]) -> Any:
    """Build one table of all runs, with one shared dictionary of topics."""
    arrow = load_arrow()
    batches = [each.batch if isinstance(each, Batch) else _batch_of(each.rows()) for each in stretches]
    return arrow.Table.from_batches(batches, schema=batch_schema()).unify_dictionaries()


def _batch_of(records: Sequence[ConsumerRecord]) -> Any:
    arrow, schema = load_arrow(), batch_schema()
    columns: list[Any] = [
        arrow.array([each.topic for each in records], arrow.string()).dictionary_encode(),
        [each.partition for each in records],
        [each.offset for each in records],
        [each.timestamp * _MICROSECONDS for each in records],
        [each.key for each in records],
        [each.value for each in records],
        [[{"key": header.name, "value": header.value} for header in each.headers] for each in records],
    ]
    arrays = [
        column if place == 0 else arrow.array(column, field.type)
        for place, (column, field) in enumerate(zip(columns, schema, strict=True))
    ]
    return arrow.RecordBatch.from_arrays(arrays, schema=schema)


def _headers(given: list[dict[str, Any]] | None) -> tuple[Header, ...]:
    return tuple(Header(each["key"], each["value"]) for each in given or ())
