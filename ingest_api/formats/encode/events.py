"""Server-sent events: an event for each record, with the NDJSON object as data and the next positions as id.

An id is `partition:next_offset`, with a comma between several, in order of partition. It names all partitions that are
read, not only the record's own: a client that reconnects with it misses no record and gets none twice.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

import pyarrow as pa

from ingest_api.formats.encode.json_values import Decode
from ingest_api.formats.encode.ndjson import encode_lines
from ingest_api.formats.encode.rows import cut_batches, to_columns
from ingest_api.web.errors import Refusal
from ingest_api.web.negotiation import Format

#: A comment: shows both sides, and proxies between them, that the connection is alive.
KEEP_ALIVE: Final = b": keep-alive\n\n"

_POSITION: Final = rb"(0|[1-9][0-9]{0,9}):(0|[1-9][0-9]{0,18})"
_EVENT_ID: Final = re.compile(_POSITION + rb"(?:," + _POSITION + rb")*")
_PARTITION_MAX: Final = 2**31 - 1
_OFFSET_MAX: Final = 2**63 - 1


def format_event_id(positions: Mapping[int, int]) -> str:
    return ",".join(f"{partition}:{next_offset}" for partition, next_offset in sorted(positions.items()))


def parse_event_id(given: bytes) -> dict[int, int]:
    """Parse a `Last-Event-ID` into the next offset of each partition."""
    text = given.strip(b" \t")
    pairs = [piece.split(b":") for piece in text.split(b",")] if _EVENT_ID.fullmatch(text) else []
    positions = {int(partition): int(next_offset) for partition, next_offset in pairs}
    fits = positions and max(positions) <= _PARTITION_MAX and max(positions.values()) <= _OFFSET_MAX
    if not fits or len(positions) != len(pairs):
        raise Refusal(
            400, "Last-Event-ID must be the id of an event: partition:next_offset, with commas between several"
        )
    return positions


class EventWriter:
    """`positions` are the first offsets of all partitions read; `moved` reports offsets without records."""

    def __init__(self, positions: Mapping[int, int], decode: Decode = "auto") -> None:
        self.content_type = Format.EVENTS.encode()
        self._positions = dict(positions)
        self._decode: Decode = decode

    def start(self) -> bytes:
        return b""

    def moved(self, partition: int, next_offset: int) -> None:
        self._positions[partition] = next_offset

    def rows(self, partition: int, batches: Iterable[pa.RecordBatch]) -> Iterator[bytes]:
        for batch in cut_batches(batches):
            columns = to_columns(batch)
            lines = encode_lines(partition, columns, self._decode).split(b"\n")
            before, after = self._others(partition)
            yield b"".join(
                b"id: %b%d:%d%b\ndata: %b\n\n" % (before, partition, offset + 1, after, line)
                for offset, line in zip(columns.offsets, lines, strict=False)
            )
            self._positions[partition] = columns.offsets[-1] + 1

    def end(self) -> bytes:
        return b""

    def _others(self, partition: int) -> tuple[bytes, bytes]:
        """Return the parts of an id before and behind this partition's."""
        lower = format_event_id({other: at for other, at in self._positions.items() if other < partition})
        upper = format_event_id({other: at for other, at in self._positions.items() if other > partition})
        return (f"{lower}," if lower else "").encode(), (f",{upper}" if upper else "").encode()
