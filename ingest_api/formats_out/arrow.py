"""An Arrow IPC stream: the columns of the table, with the partition before them. Nothing is copied but the message."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

import pyarrow as pa

from delta_log.schema import FILE_SCHEMA, RECORD_COLUMNS
from ingest_api.formats_out.rows import cut_batches
from ingest_api.media import Format

#: Timestamps are microseconds in UTC and a header is `{key, value}`, as in the table.
STREAM_SCHEMA: Final = pa.schema(
    [pa.field("partition", pa.int32()), *(FILE_SCHEMA.field(name) for name in RECORD_COLUMNS)]
)

_END_OF_STREAM: Final = b"\xff\xff\xff\xff\x00\x00\x00\x00"
#: Serialising does not hold the interpreter, so the pieces may be larger than elsewhere.
_ROWS: Final = 65_536
_BYTES: Final = 1024 * 1024


class ArrowWriter:
    """Fetches of several partitions may follow one another in one stream."""

    def __init__(self) -> None:
        self.content_type = Format.ARROW.encode()

    def start(self) -> bytes:
        return STREAM_SCHEMA.serialize().to_pybytes()

    def rows(self, partition: int, batches: Iterable[pa.RecordBatch]) -> Iterator[memoryview]:
        number = pa.scalar(partition, pa.int32())
        for batch in cut_batches(batches, rows=_ROWS, size=_BYTES):
            columns = [pa.repeat(number, batch.num_rows), *(batch.column(name) for name in RECORD_COLUMNS)]
            yield memoryview(pa.RecordBatch.from_arrays(columns, schema=STREAM_SCHEMA).serialize())

    def end(self) -> bytes:
        return _END_OF_STREAM
