"""An Arrow IPC stream as a table: the fast lane. Pure.

The body must end with the end-of-stream marker, which every writer adds when it is closed: so a stream that was cut
between two batches is not taken for a shorter one. lz4 and zstd buffers and dictionaries are accepted if their expanded
size is not too large. `ArrowStream` refuses everything that could harm the process; the log checks columns and
contents.
"""

from __future__ import annotations

from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from ingest_api.formats.decode.record_errors import Fault, refuse_count, refuse_records
from ingest_api.web.errors import Refusal
from lakelog.foundation.arrow_stream import ArrowStream, Limits, Whole
from lakelog.foundation.arrow_types import ArrowRefused

_MOST_COLUMNS: Final = 5
#: Columns whose rows may share their bytes.
_SHARING: Final = ("key", "value")


def decode_arrow(body: bytes, *, most_records: int, most_bytes: int, partition: int | None = None) -> pa.Table:
    """Decode a request to columns, all for `partition` if given; `most_bytes` bounds the uncompressed size."""
    if not body:
        raise Refusal(422, "the body is empty")
    try:
        table = _read(body, most_records, most_bytes)
        return table if partition is None else _place(table, partition)
    except (ArrowRefused, Fault) as fault:
        raise Refusal(422, f"the Arrow stream {fault}") from None
    except (pa.ArrowException, MemoryError) as error:
        raise Refusal(422, f"the Arrow stream is not sound: {str(error)[:200]}") from None


def _read(body: bytes, most_records: int, most_bytes: int) -> pa.Table:
    stream = ArrowStream(Whole(body), Limits(most_bytes, most_records, most_records))
    schema = stream.schema
    if len(schema) > _MOST_COLUMNS:
        raise Fault(f"has {len(schema)} columns: key, value, partition, timestamp and headers are those there can be")
    batches: list[pa.RecordBatch] = []
    rows = 0
    for batch in stream:
        rows += batch.num_rows
        if rows > most_records:
            raise refuse_count(rows, most_records)
        batches.append(batch)
    if rows == 0:
        raise refuse_count(rows, most_records)
    table = pa.Table.from_batches(batches, schema)
    if stream.has_dictionaries:
        _check_expansion(table, most_bytes)
    return table


def _check_expansion(table: pa.Table, most_bytes: int) -> None:
    """Refuse a table that is too large once every row has its own bytes."""
    for name in _SHARING:
        for chunk in table.column(name).chunks if table.column_names.count(name) == 1 else ():
            if pa.types.is_dictionary(chunk.type):
                most_bytes -= _expanded_size(chunk)
                if most_bytes < 0:
                    raise Fault(f"has a column {name} with too many bytes once every row has its own")


def _expanded_size(column: Any) -> int:
    lengths = pc.binary_length(column.dictionary).cast(pa.int64()).take(column.indices)
    return pc.sum(lengths).as_py() or 0


def _place(table: pa.Table, partition: int) -> pa.Table:
    if "partition" in table.column_names:
        given = table.column("partition")
        if not (pa.types.is_integer(given.type) or pa.types.is_null(given.type)):
            raise Fault(f"has a column partition of {given.type}, not of whole numbers")
        other = pc.index(pc.not_equal(given.cast(pa.int64()), partition), True).as_py()
        if other >= 0:
            found = given[other].as_py()
            raise refuse_records([(other, f"its partition: {found}, but the request is for partition {partition}")], 1)
        table = table.drop_columns(["partition"])
    return table.append_column("partition", pa.repeat(pa.scalar(partition, pa.int32()), table.num_rows))
