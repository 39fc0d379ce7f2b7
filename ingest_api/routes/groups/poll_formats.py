"""Formats of the answer to a poll: records of several topics, each with its topic. Pure.

A writer is used for one answer: `start()`, `rows(…)` of each partition, `end()`; joined they are the body.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from functools import lru_cache
from typing import Final, Literal, Protocol, cast

import pyarrow as pa

from delta_log import Fetched
from delta_log.model.quoting import quoted
from delta_log.model.schema import RECORD_COLUMNS
from ingest_api.formats.encode.arrow import STREAM_SCHEMA
from ingest_api.formats.encode.envelope import EnvelopeWriter
from ingest_api.formats.encode.json_values import Decode
from ingest_api.formats.encode.ndjson import encode_lines
from ingest_api.formats.encode.rows import cut_batches, to_columns
from ingest_api.web.errors import Refusal
from ingest_api.web.negotiation import FORMATS, Format, choose
from ingest_api.web.request import Piece

UNSUPPORTED_FORMAT: Final = 40601
#: v2's types that name no embedded format: they mean the instance's own.
_OF_THE_INSTANCE: Final = (
    "application/json",
    "application/vnd.kafka.v2+json",
    "application/vnd.kafka.v1+json",
    "application/vnd.kafka+json",
)
_EMBEDDED: Final = {
    name: means
    for name, means in FORMATS.items()
    if means in (Format.BINARY, Format.JSON) and name not in _OF_THE_INSTANCE
}
_TOPIC: Final = pa.dictionary(pa.int32(), pa.string())
POLLED_SCHEMA: Final = pa.schema([pa.field("topic", _TOPIC), *STREAM_SCHEMA])
_END_OF_STREAM: Final = b"\xff\xff\xff\xff\x00\x00\x00\x00"
#: Serialising releases the GIL, so the pieces may be larger than elsewhere.
_ARROW_ROWS: Final = 65_536
_ARROW_BYTES: Final = 1024 * 1024
#: Longer headers are not cached.
_LONG: Final = 1_024


class PolledWriter(Protocol):
    @property
    def content_type(self) -> bytes: ...
    def start(self) -> bytes: ...
    def rows(self, fetched: Fetched) -> Iterator[Piece]: ...
    def end(self) -> bytes: ...


def choose_format(accept: bytes | None, own: str) -> Format:
    """Choose the format of an answer. The instance's `own` embedded format was fixed at its creation."""
    if not accept:
        return _media_of(own)
    return _choose_known(accept, own) if len(accept) <= _LONG else _choose(accept, own)


def open_polled_writer(media: Format, topics: Collection[str], decode: Decode) -> PolledWriter:
    """Make the writer of a format; `decode` is for lines."""
    if media is Format.NDJSON:
        return PolledLines(decode)
    if media is Format.ARROW:
        return PolledArrow(topics)
    return PolledEnvelope("json" if media is Format.JSON else "binary")


def _choose(accept: bytes, own: str) -> Format:
    mine = _media_of(own)
    known = dict.fromkeys(
        [mine, *(name for name, means in _EMBEDDED.items() if means is mine), *_OF_THE_INSTANCE], mine
    )
    choice = choose(accept, {**known, Format.NDJSON: Format.NDJSON, Format.ARROW: Format.ARROW})
    if choice is not None:
        return choice
    shown = quoted(accept)
    offered = f"{mine}, {Format.NDJSON}, {Format.ARROW}"
    if choose(accept, _EMBEDDED) is not None:
        said = f"the format of this instance is {own}, and Accept {shown} wants another; offered are {offered}"
        raise Refusal(406, said, code=UNSUPPORTED_FORMAT)
    raise Refusal(406, f"Accept {shown} allows nothing that is offered here: {offered}")


_choose_known: Final = lru_cache(256)(_choose)


def _media_of(own: str) -> Format:
    return Format.JSON if own == "json" else Format.BINARY


class PolledEnvelope:
    """v2's array, with either embedded format."""

    def __init__(self, embedded: Literal["binary", "json"]) -> None:
        self.content_type = EnvelopeWriter("", embedded).content_type
        self._embedded: Literal["binary", "json"] = embedded
        self._separator = b""

    def start(self) -> bytes:
        return b"["

    def rows(self, fetched: Fetched) -> Iterator[bytes]:
        before = self._separator
        for piece in EnvelopeWriter(fetched.topic, self._embedded).rows(fetched.partition, fetched.batches):
            yield before + piece
            before, self._separator = b"", b","

    def end(self) -> bytes:
        return b"]\n"


class PolledLines:
    """The lines of any read, with `topic` as their first member."""

    def __init__(self, decode: Decode) -> None:
        self.content_type = Format.NDJSON.encode()
        self._decode: Decode = decode

    def start(self) -> bytes:
        return b""

    def rows(self, fetched: Fetched) -> Iterator[bytes]:
        begin = b'{"topic":"%b",' % fetched.topic.encode()  # a topic's name has nothing that JSON would escape
        for batch in cut_batches(fetched.batches):
            lines = encode_lines(fetched.partition, to_columns(batch), self._decode)
            yield begin + lines[1:-1].replace(b"\n{", b"\n" + begin) + b"\n"

    def end(self) -> bytes:
        return b""


class PolledArrow:
    """An Arrow stream; its topics are in a dictionary that is sent first."""

    def __init__(self, topics: Collection[str]) -> None:
        self.content_type = Format.ARROW.encode()
        self._topics = pa.array(list(topics), pa.string())
        self._places = {topic: place for place, topic in enumerate(topics)}

    def start(self) -> bytes:
        """Schema and dictionary, from a batch without rows."""
        sink = pa.BufferOutputStream()
        none = [self._column(0, 0), *(pa.array([], each.type) for each in STREAM_SCHEMA)]
        with pa.ipc.new_stream(sink, POLLED_SCHEMA) as stream:
            stream.write_batch(pa.RecordBatch.from_arrays(none, schema=POLLED_SCHEMA))
        return cast("bytes", sink.getvalue().to_pybytes()).removesuffix(_END_OF_STREAM)

    def rows(self, fetched: Fetched) -> Iterator[memoryview]:
        place, number = self._places[fetched.topic], pa.scalar(fetched.partition, pa.int32())
        for batch in cut_batches(fetched.batches, rows=_ARROW_ROWS, size=_ARROW_BYTES):
            rows = int(batch.num_rows)
            columns = [self._column(place, rows), pa.repeat(number, rows), *map(batch.column, RECORD_COLUMNS)]
            yield memoryview(pa.RecordBatch.from_arrays(columns, schema=POLLED_SCHEMA).serialize())

    def end(self) -> bytes:
        return _END_OF_STREAM

    def _column(self, place: int, rows: int) -> pa.Array:
        places = pa.repeat(pa.scalar(place, pa.int32()), rows)
        return pa.DictionaryArray.from_arrays(places, self._topics)
