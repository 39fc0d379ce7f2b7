"""The messages of an Arrow IPC stream, looked at before Arrow builds anything from them. Pure.

A message says of itself how large its buffers are once decompressed, and Arrow believes it. Here that is added up
first, from the few fields of the message's flatbuffer that tell. Arrow itself has verified the flatbuffer's offsets.
"""

from __future__ import annotations

import struct
from typing import Any, Final

import pyarrow as pa

from ingest_api.errors import Refusal
from ingest_api.formats_in.faults import Fault

#: A writer that replaces a dictionary does so for each batch at most; every one that is added to is built anew.
MOST_DICTIONARIES: Final = 1_000
MOST_SCHEMA_BYTES: Final = 1024 * 1024
#: What goes wrong inside Arrow when bytes are no Arrow; undecodable names are a ValueError.
ARROW_ERRORS: Final = (pa.ArrowException, OSError, ValueError, KeyError, TypeError, IndexError, MemoryError)

_EXTENSION: Final = b"ARROW:extension:name"
#: Places of fields in their tables.
_MESSAGE_HEADER: Final = 2
_DICTIONARY_DATA: Final = 1
_BATCH_BUFFERS: Final = 2
_BATCH_COMPRESSION: Final = 3
_UNCOMPRESSED: Final = -1
_LENGTH: Final = 8


def check_messages(body: bytes, *, most_batches: int, most_bytes: int) -> None:
    """Refuse a stream that does not end where the body does, or that would become too large."""
    source = pa.BufferReader(body)
    try:
        reader = pa.ipc.MessageReader.open_stream(source)
        at = _check_all(reader, source, most_batches, most_bytes)
    except Fault as fault:
        raise Refusal(422, f"the Arrow stream {fault}") from None
    except (*ARROW_ERRORS, struct.error) as error:
        raise Refusal(422, f"the body is no Arrow stream: {str(error)[:200]}") from None
    end = source.tell()
    if end == at:
        raise Refusal(422, "the Arrow stream is cut off: it does not end with an end-of-stream marker")
    if end != len(body):
        raise Refusal(422, f"after the end of the Arrow stream there are {len(body) - end} more bytes")


def _check_all(reader: Any, source: Any, most_batches: int, most_bytes: int) -> int:
    """Where the last message ends."""
    size = batches = dictionaries = 0
    while True:
        at: int = source.tell()
        try:
            message = reader.read_next_message()
        except StopIteration:
            return at
        match message.type:
            case "schema" if at == 0:
                _check_schema(bytes(message.metadata))
            case "record batch" if at > 0:
                batches += 1
            case "dictionary" if at > 0:
                dictionaries += 1
            case kind:
                raise Fault(f"has a message at byte {at} that does not belong there: {kind}")
        if batches > most_batches or dictionaries > MOST_DICTIONARIES:
            raise Fault(f"has more than {most_batches} batches or {MOST_DICTIONARIES} dictionaries")
        if message.type != "schema":
            size += decompressed_size(bytes(message.metadata), message.body, is_batch=message.type == "record batch")
        if size > most_bytes:
            raise Fault(f"has more than {most_bytes} bytes once decompressed")


def _check_schema(metadata: bytes) -> None:
    if len(metadata) > MOST_SCHEMA_BYTES:
        raise Fault(f"has a schema of more than {MOST_SCHEMA_BYTES} bytes")
    if _EXTENSION in metadata:
        raise Fault("has columns of extension types")


def decompressed_size(metadata: bytes, body: Any, *, is_batch: bool) -> int:
    """What the buffers of one message become; of what is not compressed Arrow takes the body as it is."""
    (root,) = struct.unpack_from("<I", metadata, 0)
    batch = _follow(metadata, root, _MESSAGE_HEADER)
    if not is_batch:
        batch = _follow(metadata, batch, _DICTIONARY_DATA)
    if not _field(metadata, batch, _BATCH_COMPRESSION):
        return body.size
    buffers = _follow(metadata, batch, _BATCH_BUFFERS)
    (count,) = struct.unpack_from("<I", metadata, buffers)
    if buffers + 4 + 16 * count > len(metadata):
        raise Fault("has a message that lists buffers beyond its end")
    view = memoryview(body)
    size = 0
    for start, length in struct.iter_unpack("<qq", metadata[buffers + 4 : buffers + 4 + 16 * count]):
        if length == 0:
            continue
        if start < 0 or length < _LENGTH or start + length > len(view):
            raise Fault("has a compressed buffer that is not in its message")
        (claimed,) = struct.unpack_from("<q", view, start)
        if claimed < _UNCOMPRESSED:
            raise Fault("has a compressed buffer of negative length")
        size += length if claimed == _UNCOMPRESSED else claimed
    return size


def _field(data: bytes, table: int, number: int) -> int:
    """Where a field of a flatbuffer table is; 0 where the table does not have it."""
    (back,) = struct.unpack_from("<i", data, table)
    (size,) = struct.unpack_from("<H", data, table - back)
    entry = 4 + 2 * number
    if entry >= size:
        return 0
    (offset,) = struct.unpack_from("<H", data, table - back + entry)
    return table + offset if offset else 0


def _follow(data: bytes, table: int, number: int) -> int:
    at = _field(data, table, number)
    if not at:
        raise Fault("has a message without a part that it needs")
    (offset,) = struct.unpack_from("<I", data, at)
    return at + offset
