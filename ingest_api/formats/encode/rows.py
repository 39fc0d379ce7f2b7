"""Converts Arrow batches to columns of plain Python values, by pieces. Knows the columns; no format."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import accumulate, pairwise, repeat
from typing import Any, Final, NamedTuple

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

#: Limits of a piece, so that the GIL is never held for much more than half a millisecond.
PIECE_ROWS: Final = 1_000
PIECE_BYTES: Final = 256 * 1024


class HeaderShown(msgspec.Struct, gc=False):
    """A header as all JSON formats show it; the value as base64."""

    name: str
    value: bytes | None


class Columns(NamedTuple):
    """Columns of a piece. Timestamps are milliseconds; `headers` has at least as many entries as there are rows."""

    offsets: list[int]
    timestamps: list[int]
    keys: list[bytes | None]
    values: list[bytes | None]
    headers: Iterable[list[HeaderShown]]


_NO_HEADERS: Final[list[HeaderShown]] = []


def cut_batches(
    batches: Iterable[pa.RecordBatch], *, rows: int = PIECE_ROWS, size: int = PIECE_BYTES
) -> Iterator[pa.RecordBatch]:
    """Cut into batches of at most `rows`, and of about `size` bytes unless a single record is larger."""
    for batch in batches:
        count = int(batch.num_rows)
        if not count:
            continue
        step = max(1, min(rows, count * size // max(1, int(batch.nbytes))))
        for start in range(0, count, step):
            yield batch if step >= count else batch.slice(start, step)


def to_columns(batch: pa.RecordBatch) -> Columns:
    return Columns(
        batch.column("offset").to_numpy().tolist(),
        (batch.column("timestamp").cast(pa.int64()).to_numpy() // 1000).tolist(),
        _bytes_of(batch.column("key")),
        _bytes_of(batch.column("value")),
        _headers_of(batch.column("headers")),
    )


def _bytes_of(column: pa.Array) -> list[bytes | None]:
    if column.null_count == len(column):
        return [None] * len(column)
    return column.to_numpy(zero_copy_only=False).tolist()


def _headers_of(column: pa.Array) -> Iterable[list[HeaderShown]]:
    """Make the headers as a flat list of objects, and slices of it for each record."""
    flat: Any = () if column.null_count == len(column) else column.flatten()
    if not len(flat):
        return repeat(_NO_HEADERS)
    shown = list(map(HeaderShown, flat.field("key").to_pylist(), _bytes_of(flat.field("value"))))
    ends = accumulate(pc.fill_null(pc.list_value_length(column), 0).to_pylist(), initial=0)
    return [shown[start:end] for start, end in pairwise(ends)]
