"""The v2 envelope: a JSON array of `{topic, key, value, partition, offset, timestamp, headers}`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import repeat
from typing import Final, Literal

import msgspec
import pyarrow as pa

from ingest_api.formats.encode.json_values import Embedded, embed_columns
from ingest_api.formats.encode.rows import HeaderShown, cut_batches, to_columns
from ingest_api.web.negotiation import Format


class _Record(msgspec.Struct, gc=False):
    topic: str
    key: Embedded
    value: Embedded
    partition: int
    offset: int
    timestamp: int
    headers: list[HeaderShown]


_encode: Final = msgspec.json.Encoder().encode


class EnvelopeWriter:
    """`binary` shows keys and values as base64, `json` as in `json_values`. Always a single array."""

    def __init__(self, topic: str, embedded: Literal["binary", "json"]) -> None:
        self.content_type = (Format.BINARY if embedded == "binary" else Format.JSON).encode()
        self._topic = topic
        self._decode: Literal["base64", "json"] = "base64" if embedded == "binary" else "json"
        self._separator = b""

    def start(self) -> bytes:
        return b"["

    def rows(self, partition: int, batches: Iterable[pa.RecordBatch]) -> Iterator[bytes]:
        for batch in cut_batches(batches):
            offsets, timestamps, keys, values, headers = to_columns(batch)
            keys, values = embed_columns(keys, values, self._decode)
            records = map(_Record, repeat(self._topic), keys, values, repeat(partition), offsets, timestamps, headers)
            yield self._separator + _encode(list(records))[1:-1]
            self._separator = b","

    def end(self) -> bytes:
        return b"]\n"
