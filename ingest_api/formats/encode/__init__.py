"""Writers, one for each format, from Arrow batches to the bytes of an answer. Pure.

A writer is used for one answer: `start()`, then `rows(…)` for each fetch, of any partition, then `end()`; their joined
results are the body. The pieces are so small that no call holds the GIL for long and no answer is ever built whole. A
record that does not decode never fails a read: each format defines how it shows it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Protocol

import pyarrow as pa

from ingest_api.formats.encode.arrow import ArrowWriter
from ingest_api.formats.encode.envelope import EnvelopeWriter
from ingest_api.formats.encode.events import EventWriter
from ingest_api.formats.encode.json_values import Decode
from ingest_api.formats.encode.ndjson import LineWriter
from ingest_api.web.negotiation import Format


class Writer(Protocol):
    """Writer of an answer in its format."""

    @property
    def content_type(self) -> bytes: ...
    def start(self) -> bytes: ...
    def rows(self, partition: int, batches: Iterable[pa.RecordBatch]) -> Iterator[bytes] | Iterator[memoryview]: ...
    def end(self) -> bytes: ...


def open_writer(
    media: Format, topic: str, *, decode: Decode = "auto", positions: Mapping[int, int] | None = None
) -> Writer:
    """Make the writer of a format. `decode` is for lines and events; `positions`, the first offsets, for events."""
    match media:
        case Format.BINARY:
            return EnvelopeWriter(topic, "binary")
        case Format.JSON:
            return EnvelopeWriter(topic, "json")
        case Format.NDJSON:
            return LineWriter(decode)
        case Format.ARROW:
            return ArrowWriter()
        case Format.EVENTS:
            return EventWriter(positions or {}, decode)
        case Format.OCTETS:
            raise ValueError("records are not read as one body of octets")


__all__ = ["Decode", "Writer", "open_writer"]
