"""Batches as a fetch gives them, made from plain records."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import pyarrow as pa

from delta_log.model.schema import FILE_SCHEMA, RECORD_COLUMNS

SCHEMA = pa.schema([FILE_SCHEMA.field(name) for name in RECORD_COLUMNS])


class Stored(NamedTuple):
    """A record as it lies in the log; its timestamp in milliseconds."""

    value: bytes | None = None
    key: bytes | None = None
    headers: Sequence[tuple[str, bytes | None]] | None = None
    offset: int = 0
    timestamp: int = 1_700_000_000_000


def numbered(records: Sequence[Stored], first: int = 0) -> list[Stored]:
    return [record._replace(offset=first + at) for at, record in enumerate(records)]


def batch_of(records: Sequence[Stored]) -> pa.RecordBatch:
    rows = [
        {
            "offset": record.offset,
            "timestamp": record.timestamp * 1000,
            "key": record.key,
            "value": record.value,
            "headers": None if record.headers is None else [{"key": n, "value": v} for n, v in record.headers],
        }
        for record in records
    ]
    return pa.RecordBatch.from_pylist(rows, schema=SCHEMA)


def written(writer, fetches: Sequence[tuple[int, Sequence[pa.RecordBatch]]]) -> bytes:
    """The whole body of an answer that is made of several fetches."""
    body = [writer.start()]
    for partition, batches in fetches:
        body += writer.rows(partition, batches)
    return b"".join([*body, writer.end()])
