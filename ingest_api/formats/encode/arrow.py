"""An Arrow IPC stream: the columns of the table after a column `partition`. Large buffers are not copied."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

import pyarrow as pa

from delta_log.model.schema import FILE_SCHEMA, RECORD_COLUMNS
from ingest_api.formats.encode.rows import cut_batches
from ingest_api.web.negotiation import Format

#: Timestamps are microseconds in UTC and a header is `{key, value}`, as in the table.
STREAM_SCHEMA: Final = pa.schema(
    [pa.field("partition", pa.int32()), *(FILE_SCHEMA.field(name) for name in RECORD_COLUMNS)]
)

_END_OF_STREAM: Final = b"\xff\xff\xff\xff\x00\x00\x00\x00"
#: Limits of a message. Little of it is copied, so it may be larger than the pieces of other formats.
_ROWS: Final = 65_536
_BYTES: Final = 2 * 1024 * 1024
#: Buffers from this size on are not copied together with their neighbours.
_LARGE: Final = 256 * 1024


class ArrowWriter:
    """Writes fetches of several partitions, one after another, into one stream."""

    def __init__(self) -> None:
        self.content_type = Format.ARROW.encode()
        self._partition = -1
        self._numbers: pa.Array | None = None
        self._large: _Messages | None = None

    def start(self) -> bytes:
        return STREAM_SCHEMA.serialize().to_pybytes()

    def rows(self, partition: int, batches: Iterable[pa.RecordBatch]) -> Iterator[memoryview]:
        for batch in cut_batches(batches, rows=_ROWS, size=_BYTES):
            columns = [self._number(partition, batch.num_rows), *(batch.column(name) for name in RECORD_COLUMNS)]
            whole = pa.RecordBatch.from_arrays(columns, schema=STREAM_SCHEMA)
            if batch.nbytes < _LARGE:
                yield memoryview(whole.serialize())
                continue
            if self._large is None:
                self._large = _Messages()
            yield from self._large.write(whole)

    def end(self) -> bytes:
        return _END_OF_STREAM

    def _number(self, partition: int, rows: int) -> pa.Array:
        """Return a column of the partition's number; cached, so most answers make it once."""
        numbers = self._numbers
        if numbers is not None and self._partition == partition and len(numbers) >= rows:
            return numbers.slice(0, rows)
        self._partition = partition
        self._numbers = numbers = pa.repeat(pa.scalar(partition, pa.int32()), rows)
        return numbers


class _Messages:
    """Batches as messages whose large buffers are not copied."""

    def __init__(self) -> None:
        self._sink = _Sink()
        self._stream = pa.ipc.new_stream(pa.PythonFile(self._sink, mode="w"), STREAM_SCHEMA)
        self._stream.write_batch(pa.RecordBatch.from_pylist([], schema=STREAM_SCHEMA))
        self._sink.written.clear()  # the first batch writes the schema, which is in the answer already

    def write(self, batch: pa.RecordBatch) -> list[memoryview]:
        """Write a batch as one message, in few pieces, without copying large buffers."""
        self._stream.write_batch(batch)
        pieces: list[memoryview] = []
        near: list[bytes | pa.Buffer] = []
        for data in self._sink.written:
            if len(data) < _LARGE:
                near.append(data)
            else:
                pieces += [memoryview(b"".join(near)), memoryview(data)]
                near = []
        self._sink.written.clear()
        return [*pieces, memoryview(b"".join(near))]


class _Sink:
    """A file for Arrow, which writes the buffers of a batch without copying them, and small bytes around them."""

    closed = False

    def __init__(self) -> None:
        self.written: list[bytes | pa.Buffer] = []

    def write(self, data: bytes | pa.Buffer) -> int:
        self.written.append(data)
        return len(data)

    def flush(self) -> None: ...

    def close(self) -> None: ...
