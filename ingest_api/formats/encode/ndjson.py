"""NDJSON: a line `{partition, offset, timestamp, key, value, headers}` for each record."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import repeat
from typing import Final

import msgspec
import pyarrow as pa

from ingest_api.formats.encode.json_values import Decode, Embedded, embed_columns
from ingest_api.formats.encode.rows import Columns, HeaderShown, cut_batches, to_columns
from ingest_api.web.negotiation import Format


class _Record(msgspec.Struct, gc=False):
    partition: int
    offset: int
    timestamp: int
    key: Embedded
    value: Embedded
    headers: list[HeaderShown]


_encode_lines: Final = msgspec.json.Encoder().encode_lines
#: Characters that some readers take for a line end, though only a line feed is; escaped in a string they mean the same.
_LINE_ENDS: Final = (("\x85".encode(), b"\\u0085"), ("\u2028".encode(), b"\\u2028"), ("\u2029".encode(), b"\\u2029"))


def encode_lines(partition: int, columns: Columns, decode: Decode) -> bytes:
    """Encode a line for each row, each ended by a line feed; the bytes have no other line end."""
    keys, values = embed_columns(columns.keys, columns.values, decode)
    records = map(_Record, repeat(partition), columns.offsets, columns.timestamps, keys, values, columns.headers)
    lines = _encode_lines(list(records))
    if not lines.isascii():
        for end, escaped in _LINE_ENDS:
            lines = lines.replace(end, escaped)
    return lines


class LineWriter:
    def __init__(self, decode: Decode = "auto") -> None:
        self.content_type = Format.NDJSON.encode()
        self._decode: Decode = decode

    def start(self) -> bytes:
        return b""

    def rows(self, partition: int, batches: Iterable[pa.RecordBatch]) -> Iterator[bytes]:
        for batch in cut_batches(batches):
            yield encode_lines(partition, to_columns(batch), self._decode)

    def end(self) -> bytes:
        return b""
