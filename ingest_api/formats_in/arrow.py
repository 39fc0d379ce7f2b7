"""An Arrow IPC stream as a table: the fast lane. Pure.

The stream ends with its end-of-stream marker, which every writer writes when it is closed, and the body ends with it:
a stream that was cut between two batches is no shorter stream. lz4 and zstd buffers, dictionaries and string views
are taken, as long as what they stand for is not too large. The log checks columns and contents.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ingest_api.errors import Refusal
from ingest_api.formats_in.arrow_messages import ARROW_ERRORS, check_messages
from ingest_api.formats_in.faults import Fault, refuse_count, refuse_records, shown

_MOST_COLUMNS: Final = 5
#: Columns whose rows may share their bytes.
_SHARING: Final = ("key", "value")
_VIEW: Final = 16
#: Types of which every row has its own bytes.
_PLAIN: Final = (
    pa.types.is_null,
    pa.types.is_boolean,
    pa.types.is_integer,
    pa.types.is_floating,
    pa.types.is_temporal,
    pa.types.is_binary,
    pa.types.is_large_binary,
    pa.types.is_string,
    pa.types.is_large_string,
    pa.types.is_fixed_size_binary,
    pa.types.is_list,
    pa.types.is_large_list,
    pa.types.is_map,
    pa.types.is_struct,
)


def decode_arrow(body: bytes, *, most_records: int, most_bytes: int, partition: int | None = None) -> pa.Table:
    """The columns of a request, all for `partition` where one is given; `most_bytes` once nothing is compressed."""
    if not body:
        raise Refusal(422, "the body is empty")
    check_messages(body, most_batches=most_records, most_bytes=most_bytes)
    try:
        table = _read(body, most_records)
        _check_expansion(table, most_bytes)
        return table if partition is None else _place(table, partition)
    except Fault as fault:
        raise Refusal(422, f"the Arrow stream {fault}") from None
    except ARROW_ERRORS as error:
        raise Refusal(422, f"the body is no sound Arrow stream: {str(error)[:200]}") from None


def _read(body: bytes, most_records: int) -> pa.Table:
    with pa.ipc.open_stream(body) as reader:
        schema: pa.Schema = reader.schema
        if len(schema) > _MOST_COLUMNS:
            raise Fault(
                f"has {len(schema)} columns: key, value, partition, timestamp and headers are those there can be"
            )
        for field in schema:
            _check_type(field.name, field.type)
        batches: list[pa.RecordBatch] = []
        rows = 0
        for batch in reader:
            rows += batch.num_rows
            if rows > most_records:
                raise refuse_count(rows, most_records)
            batches.append(batch)
    if rows == 0:
        raise refuse_count(rows, most_records)
    return pa.Table.from_batches(batches, schema)


def _check_type(name: str, kind: Any) -> None:
    """Rows may share their bytes only where `_check_expansion` looks."""
    if name in _SHARING:
        if _is_view(kind):
            return
        kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    for part in _parts(kind):
        if not any(test(part) for test in _PLAIN):
            raise Fault(f"has a column {shown(name)} of a type that cannot be taken: {str(kind)[:200]}")


def _parts(kind: Any) -> Iterator[Any]:
    yield kind
    for index in range(kind.num_fields):
        yield from _parts(kind.field(index).type)


def _check_expansion(table: pa.Table, most_bytes: int) -> None:
    """Refuse what becomes too large once every row has its own bytes."""
    table.validate()
    for name in _SHARING:
        for chunk in table.column(name).chunks if table.column_names.count(name) == 1 else ():
            if pa.types.is_dictionary(chunk.type) or _is_view(chunk.type):
                chunk.validate(full=True)
                most_bytes -= _expanded_size(chunk)
                if most_bytes < 0:
                    raise Fault(f"has a column {name} with too many bytes once every row has its own")


def _expanded_size(column: Any) -> int:
    if pa.types.is_dictionary(column.type):
        lengths = pc.binary_length(column.dictionary).cast(pa.int64()).take(column.indices)
        return pc.sum(lengths).as_py() or 0
    # A view is sixteen bytes, of which the first four are the length of what it shows.
    views = np.frombuffer(column.buffers()[1], np.int32)[:: _VIEW // 4][column.offset : column.offset + len(column)]
    valid = column.is_valid().to_numpy(zero_copy_only=False)
    return int(views[valid].sum(dtype=np.int64))


def _is_view(kind: Any) -> bool:
    return pa.types.is_binary_view(kind) or pa.types.is_string_view(kind)


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
