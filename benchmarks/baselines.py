"""What this machine can do without the log: the numbers beside which the log's own are read."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from time import perf_counter
from types import TracebackType
from typing import Self

import pyarrow as pa
import pyarrow.parquet as pq
from murmurhash2 import murmurhash2

from benchmarks.records import RECORD_BYTES, make_records, to_requests
from benchmarks.rows import Row, over_turns, percentile
from benchmarks.sizes import Size
from benchmarks.topics import PARTITIONS, fill_topic, topic_files
from delta_log.delta.parquet import encode_parquet
from delta_log.log import Log
from delta_log.model.schema import FILE_SCHEMA, HEADERS, RECORD_COLUMNS, TIMESTAMP
from delta_log.model.topic_config import ParquetCodec
from delta_log.model.types import Record

SMALL, LARGE = 200, 130_000
PIPELINE = "straight-line pipeline"
_MB = 1_000_000
_COPIED = 64 * _MB
_KAFKA_SEED = 0x9747B28C
_REQUESTS_A_FILE = 100
_ORDERED_BY = ("offset", "timestamp")


class GrowingFile:
    """A file that every write makes longer, and every write is followed by an fdatasync."""

    def __init__(self, path: Path) -> None:
        self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self._fd)

    def write(self, data: bytes) -> None:
        os.write(self._fd, data)
        os.fdatasync(self._fd)

    def time_writes(self, size: int, count: int) -> list[float]:
        data = os.urandom(size)
        taken: list[float] = []
        for _ in range(count):
            began = perf_counter()
            self.write(data)
            taken.append(perf_counter() - began)
        return taken


def run_pipeline(requests: Sequence[Sequence[Record]]) -> float:
    """Records a second of one core that hashes (murmur2), splits by partition, builds Arrow and encodes parquet.

    No journal, no disk, no offsets from a sequencer, no checks; a file for each partition and 100 requests. It is what
    a program would do that only had to turn the same requests into the same files.
    """
    threads = pa.cpu_count()
    pa.set_cpu_count(1)
    try:
        began = perf_counter()
        for start in range(0, len(requests), _REQUESTS_A_FILE):
            _encode_requests(requests[start : start + _REQUESTS_A_FILE])
        return sum(map(len, requests)) / (perf_counter() - began)
    finally:
        pa.set_cpu_count(threads)


def _encode_requests(requests: Sequence[Sequence[Record]]) -> None:
    keys: list[list[bytes | None]] = [[] for _ in range(PARTITIONS)]
    values: list[list[bytes | None]] = [[] for _ in range(PARTITIONS)]
    for request in requests:
        given = [record.key for record in request]
        contents = [record.value for record in request]
        places: list[list[int]] = [[] for _ in range(PARTITIONS)]
        for index, key in enumerate(given):
            places[(murmurhash2(key, _KAFKA_SEED) & 0x7FFFFFFF) % PARTITIONS].append(index)
        for partition, indexes in enumerate(places):
            keys[partition] += [given[index] for index in indexes]
            values[partition] += [contents[index] for index in indexes]
    encode_files(keys, values)


def encode_files(keys: Sequence[Sequence[bytes | None]], values: Sequence[Sequence[bytes | None]]) -> None:
    """A parquet file for each partition."""
    for own_keys, own_values in zip(keys, values, strict=True):
        encode_parquet(file_table(own_keys, own_values), ParquetCodec(), ordered_by=_ORDERED_BY)


def file_table(keys: Sequence[bytes | None], values: Sequence[bytes | None]) -> pa.Table:
    """Keys and values in the columns of a topic's file."""
    count = len(keys)
    columns = [
        pa.array(range(count), pa.int64()),
        pa.repeat(pa.scalar(1_700_000_000_000_000, TIMESTAMP), count),
        pa.array(keys, pa.binary()),
        pa.array(values, pa.binary()),
        pa.nulls(count, HEADERS),
        *(pa.nulls(count, FILE_SCHEMA.field(name).type) for name in FILE_SCHEMA.names[5:]),
    ]
    return pa.Table.from_arrays(columns, schema=FILE_SCHEMA)


def read_with_pyarrow(files: Sequence[Path], *, threads: bool) -> float:
    """Records a second of `pq.read_table`, one file after the other.

    It is given the columns that the log gives, and does not verify the checksums of pages, as the log does.
    """
    rows, columns = 0, list(RECORD_COLUMNS)
    began = perf_counter()
    for file in files:
        rows += pq.read_table(file, columns=columns, partitioning=None, use_threads=threads).num_rows
    return rows / (perf_counter() - began)


def run(place: Path, size: Size) -> Iterator[Row]:
    """Nothing here goes through the log, except that it writes the files that pyarrow reads."""
    yield from _syncs(place, size)
    yield from _copies(size)
    records = make_records(size.pool)
    yield from _encodes(records, size)
    requests = to_requests(records, 1000)
    run_pipeline(requests)
    rates = [run_pipeline(requests) for _ in range(size.turns)]
    yield over_turns(rates, "records/s", name="baseline.pipeline", params={"cores": 1})
    yield from _reads(place, size, records)


def _syncs(place: Path, size: Size) -> Iterator[Row]:
    """`baseline.sync`: one write and one fdatasync on a growing file, as large as one small or one large request."""
    for length in (SMALL, LARGE):
        with GrowingFile(place / f"growing-{length}") as file:
            file.time_writes(length, size.singles)
            taken = [seconds * 1000 for _ in range(size.turns) for seconds in file.time_writes(length, size.singles)]
        p50, p99 = percentile(taken, 0.5), percentile(taken, 0.99)
        yield Row(name="baseline.sync", params={"bytes": length}, value=p50, unit="ms", p50=p50, p99=p99)


def _copies(size: Size) -> Iterator[Row]:
    """`baseline.memory`: copying 64 MB from one place in memory to another."""
    source, target = memoryview(bytearray(os.urandom(_COPIED))), memoryview(bytearray(_COPIED))
    rates: list[float] = []
    for _ in range(size.turns + 1):
        began = perf_counter()
        target[:] = source
        rates.append(_COPIED / _MB / (perf_counter() - began))
    yield over_turns(rates[1:], "MB/s", name="baseline.memory")


def _encodes(records: Sequence[Record], size: Size) -> Iterator[Row]:
    """`baseline.encode`: Arrow to parquet bytes as the log encodes its files; MB are of keys and values."""
    table = file_table([record.key for record in records], [record.value for record in records])
    rates: list[float] = []
    for _ in range(size.turns + 1):
        began = perf_counter()
        encode_parquet(table, ParquetCodec(), ordered_by=_ORDERED_BY)
        rates.append(table.num_rows / (perf_counter() - began))
    yield over_turns(rates[1:], "records/s", name="baseline.encode")
    yield over_turns([rate * RECORD_BYTES / _MB for rate in rates[1:]], "MB/s", name="baseline.encode")


def _reads(place: Path, size: Size, records: Sequence[Record]) -> Iterator[Row]:
    """`baseline.read`: pyarrow reads a topic's parquet files whole, on all cores and on one."""
    with Log.open(place / "root") as log:
        fill_topic(log, "orders", records, size.stored // 4)
    files = topic_files(place / "root", "orders")
    for threads in (True, False):
        read_with_pyarrow(files, threads=threads)
        rates = [read_with_pyarrow(files, threads=threads) for _ in range(size.turns)]
        for values, unit in ((rates, "records/s"), ([rate * RECORD_BYTES / _MB for rate in rates], "MB/s")):
            yield over_turns(values, unit, name="baseline.read", params={"threads": threads, "files": len(files)})
