"""An Arrow IPC stream from outside, read so that no byte of it can crash the process. Pure, but for its source.

Arrow's own reader trusts much of a stream, and a bug in its C++ ends the process. Here the stream is parsed in Python,
down to its buffers, and Arrow gets only checked buffers of accepted types.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any, Final, NamedTuple, Protocol

import pyarrow as pa

from lakelog.foundation.arrow_arrays import Body, Room, read_array
from lakelog.foundation.arrow_types import BATCH, DICTIONARY, ArrowRefused, Columns, Kind, kind_of, read_schema
from lakelog.foundation.flatbuffer import Malformed, Table, needed

#: A writer replaces a dictionary at most once for each batch.
MOST_DICTIONARIES: Final = 1_000
MOST_METADATA_BYTES: Final = 1024 * 1024
_PIECE: Final = 16 * 1024 * 1024
#: Largest message of a streamed input: the reach of 32-bit offsets.
_MOST_COMING: Final = 2**31
_WORD: Final = struct.Struct("<I").unpack_from
_CONTINUES: Final = 0xFFFFFFFF
_CUT_OFF: Final = "is cut off: it does not end with an end-of-stream marker"
_ODD: Final = (struct.error, Malformed, UnicodeDecodeError, pa.ArrowException, OSError, OverflowError, MemoryError)


class Limits(NamedTuple):
    """Limits of a stream: decompressed bytes, batches, and rows that take no bytes."""

    bytes: int
    batches: int
    nulls: int


class Source(Protocol):
    """Input of a stream. Reads raise ArrowRefused if it ends too early."""

    at: int

    def word(self) -> int: ...
    def text(self, size: int) -> bytes: ...
    def take(self, size: int) -> pa.Buffer: ...
    def left(self) -> int: ...


class Whole:
    """A stream that is entirely in memory."""

    def __init__(self, data: bytes) -> None:
        self.at = 0
        self._bytes = memoryview(data)
        self._size = len(data)
        self._buffer: Any = pa.py_buffer(data)

    def word(self) -> int:
        return _WORD(self._bytes, self._pass(4))[0]

    def text(self, size: int) -> bytes:
        at = self._pass(size)
        return bytes(self._bytes[at : at + size])

    def take(self, size: int) -> pa.Buffer:
        return self._buffer.slice(self._pass(size), size)

    def left(self) -> int:
        return self._size - self.at

    def _pass(self, size: int) -> int:
        at = self.at
        self.at = behind = at + size
        if behind > self._size:
            raise ArrowRefused(_CUT_OFF)
        return at


class Readable(Protocol):
    def read(self, size: int, /) -> bytes: ...


class Coming:
    """A streamed input: at most one message is in memory, and no memory is reserved for a claimed size."""

    def __init__(self, file: Readable) -> None:
        self.at = 0
        self._file = file

    def word(self) -> int:
        return _WORD(self.text(4), 0)[0]

    def text(self, size: int) -> bytes:
        if size > _MOST_COMING:
            raise ArrowRefused(f"has a message of {size} bytes, and {_MOST_COMING} at most are taken")
        pieces: list[bytes] = []
        left = size
        while left:
            piece = self._file.read(min(left, _PIECE))
            if not piece:
                raise ArrowRefused(_CUT_OFF)
            pieces.append(piece)
            left -= len(piece)
        self.at += size
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def take(self, size: int) -> pa.Buffer:
        return pa.py_buffer(self.text(size))

    def left(self) -> int:
        return 0


class ArrowStream:
    """A stream whose schema was read and accepted. Its batches are read during the iteration."""

    def __init__(self, source: Source, limits: Limits) -> None:
        self._source, self._limits = source, limits
        self._room = Room(limits.bytes)
        self._dictionaries: dict[int, pa.Array] = {}
        try:
            metadata = _next_message(source)
            if metadata is None:
                raise ArrowRefused("does not begin with a schema")
            self._columns: Columns = read_schema(metadata)
        except _ODD as error:
            raise _not_sound(error) from None
        for key, kind in self._columns.dictionaries.items():
            self._dictionaries[key] = pa.array([], kind.type)

    @property
    def schema(self) -> pa.Schema:
        return self._columns.schema

    @property
    def has_dictionaries(self) -> bool:
        return bool(self._columns.dictionaries)

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        try:
            yield from self._read()
        except _ODD as error:
            raise _not_sound(error) from None

    def _read(self) -> Iterator[pa.RecordBatch]:
        source, batches, dictionaries = self._source, 0, 0
        while True:
            at = source.at
            metadata = _next_message(source)
            if metadata is None:
                break
            message = Table.root(metadata)
            kind = kind_of(message)
            if kind == BATCH:
                batches += 1
            elif kind == DICTIONARY:
                dictionaries += 1
            else:
                raise ArrowRefused(f"has a message at byte {at} that does not belong there: number {kind}")
            if batches > self._limits.batches or dictionaries > MOST_DICTIONARIES:
                raise ArrowRefused(f"has more than {self._limits.batches} batches or {MOST_DICTIONARIES} dictionaries")
            header = needed(message.table(2), "batch")
            data = source.take(_body_size(message))
            if kind == BATCH:
                yield self._batch(header, data)
            else:
                self._take_dictionary(header, data)
        if source.left():
            raise ArrowRefused(f"has {source.left()} more bytes behind its end")

    def _batch(self, header: Table, data: pa.Buffer) -> pa.RecordBatch:
        body = Body(header, data, self._room, self._limits.nulls)
        arrays = [self._array(kind, body) for kind in self._columns.kinds]
        body.check_end()
        return pa.RecordBatch.from_arrays(arrays, schema=self._columns.schema)

    def _array(self, kind: Kind, body: Body) -> pa.Array:
        array = read_array(kind, body, self._dictionaries)
        if len(array) != body.rows:
            raise ArrowRefused("has a batch whose columns are not as long as it says")
        return array

    def _take_dictionary(self, header: Table, data: pa.Buffer) -> None:
        key = header.number(0, "q")
        kind = self._columns.dictionaries.get(key)
        if kind is None:
            raise ArrowRefused("has a dictionary that is of no column")
        body = Body(needed(header.table(1), "dictionary"), data, self._room, self._limits.nulls)
        array = self._array(kind, body)
        body.check_end()
        if header.number(2, "B"):
            # The whole dictionary is copied each time.
            array = pa.concat_arrays([self._dictionaries[key], array])
            self._room.take(array.nbytes)
        self._dictionaries[key] = array


def _next_message(source: Source) -> bytes | None:
    """The metadata of the next message; None at the end of the stream. Its body follows."""
    size = source.word()
    if size == _CONTINUES:
        size = source.word()
    if size > MOST_METADATA_BYTES:
        raise ArrowRefused(f"has a message with {size} bytes of metadata, and {MOST_METADATA_BYTES} at most are taken")
    return source.text(size) if size else None


def _body_size(message: Table) -> int:
    size = message.number(3, "q")
    if size < 0:
        raise ArrowRefused("has a message of negative length")
    return size


def _not_sound(error: BaseException) -> ArrowRefused:
    return ArrowRefused(f"is not sound: {str(error)[:200] or type(error).__name__}")
