"""The message of a record batch as arrays, without trust in any byte. Pure.

Arrow gets only buffers that are as long as their arrays need, offsets that ascend and end within their data, and
indexes that are in their dictionary, also below a null: its own code then has nothing left to find wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from lakelog.foundation.arrow_types import VIEW_BYTES, ArrowRefused, Kind
from lakelog.foundation.flatbuffer import Table

try:
    import numpy as np
except ImportError:  # Arrow does without, and so may a client
    np = None

#: The numbers of fields in the format's RecordBatch, and its codecs.
_ROWS, _NODES, _BUFFERS, _COMPRESSION, _VARIADIC_COUNTS = 0, 1, 2, 3, 4
_CODECS: Final = ("lz4", "zstd")
_AS_IT_IS: Final = -1
_ZSTD: Final = pa.Codec("zstd")
_HEAD: Final = 8
#: Below this many offsets a Python loop is faster.
_FEW: Final = 128
_CODES: Final = {4: "i", 8: "q"}
_TYPES: Final = {4: pa.int32(), 8: pa.int64()}
#: A view holds up to this many bytes inline.
_INLINE: Final = 12
_EMPTY: Final = pa.py_buffer(b"")
_NOTHING_LEFT: Final = "has a message with fewer buffers than its columns need"


class Room:
    """Budget of bytes for data that is decompressed or copied together."""

    def __init__(self, most: int) -> None:
        self.most = self._left = most

    def take(self, size: int) -> None:
        self._left -= size
        if self._left < 0:
            raise ArrowRefused(f"has more than {self.most} bytes once decompressed")


class Body:
    """The nodes and buffers of one message, read in their order."""

    def __init__(self, batch: Table, data: pa.Buffer, room: Room, most_nulls: int) -> None:
        self.rows = batch.number(_ROWS, "q")
        self.most_nulls = most_nulls
        self._nodes, self._buffers = batch.pairs(_NODES), batch.pairs(_BUFFERS)
        self._node = self._buffer = 0
        # Arrow's loops rely on aligned numbers.
        self._data: Any = data if not data.address & 7 else pa.py_buffer(bytes(data))
        self._size: int = data.size
        self._room = room
        self._batch, self._counts = batch, iter(())
        self._has_counts = False
        self._codec = self._codec_of(batch.table(_COMPRESSION))

    def node(self) -> tuple[int, int]:
        """The length of the next array, and its declared number of nulls."""
        at = self._node
        if at >= len(self._nodes):
            raise ArrowRefused("has a message with fewer arrays than its schema has columns")
        self._node = at + 2
        rows = self._nodes[at]
        if rows < 0:
            raise ArrowRefused("has an array of negative length")
        return rows, self._nodes[at + 1]

    def buffer(self, needed: int) -> pa.Buffer:
        """The next buffer, of which `needed` bytes must be there."""
        at = self._buffer
        if at >= len(self._buffers):
            raise ArrowRefused(_NOTHING_LEFT)
        self._buffer = at + 2
        start, size = self._buffers[at], self._buffers[at + 1]
        if size == 0:
            found = _EMPTY
        elif start < 0 or size < 0 or start + size > self._size or start & 7:
            raise ArrowRefused("has a buffer that is not in its message")
        else:
            found = self._data.slice(start, size)
            size = found.size if self._codec is None else (found := self._decompressed(found, self._codec)).size
        if size < needed:
            raise ArrowRefused(f"has a buffer of {size} bytes where {needed} are needed")
        return found

    def shown(self) -> list[pa.Buffer]:
        """The data buffers that the next column of views refers to."""
        if not self._has_counts:
            self._counts, self._has_counts = iter(self._batch.numbers(_VARIADIC_COUNTS)), True
        return [self.buffer(0) for _ in range(next(self._counts, 0))]

    def copy(self, size: int) -> None:
        """Count bytes that will be copied, perhaps more than once."""
        self._room.take(size)

    def bitmap(self, rows: int, nulls: int) -> pa.Buffer | None:
        """Validity bitmap of the rows; None if no row is null."""
        found = self.buffer((rows + 7) // 8 if nulls else 0)
        return found if nulls and rows else None

    def check_end(self) -> None:
        if self._node != len(self._nodes) or self._buffer != len(self._buffers):
            raise ArrowRefused("has a message with more arrays or buffers than its schema has columns")

    @staticmethod
    def _codec_of(compression: Table | None) -> str | None:
        if compression is None:
            return None
        codec, method = compression.number(0, "b"), compression.number(1, "b")
        if not 0 <= codec < len(_CODECS) or method:
            raise ArrowRefused("is compressed by an unknown codec: lz4 and zstd are taken")
        return _CODECS[codec]

    def _decompressed(self, found: Any, codec: str) -> Any:
        """Decompress; a wrong declared length is refused: it would cut data, or leave memory uninitialized."""
        if found.size < _HEAD:
            raise ArrowRefused("has a compressed buffer without a length")
        size = int.from_bytes(memoryview(found)[:_HEAD], "little", signed=True)
        packed = found.slice(_HEAD)
        if size == _AS_IT_IS:
            self._room.take(packed.size)
            return packed
        if size < 0:
            raise ArrowRefused("has a compressed buffer of negative length")
        self._room.take(size)
        if not size:
            return _EMPTY
        if codec == "zstd":
            return _ZSTD.decompress(packed, size)  # it refuses any other length
        with pa.CompressedInputStream(pa.BufferReader(packed), codec) as stream:
            data = stream.read_buffer(size + 1)
        if data.size != size:
            raise ArrowRefused("has a compressed buffer of another length than it says")
        return data


Dictionaries = Mapping[int, pa.Array]


def read_array(kind: Kind, body: Body, dictionaries: Dictionaries) -> pa.Array:
    """The next array of a message. Its length is that of its node; the caller compares it with the others'."""
    if kind.dictionary is not None:
        return _indexed(kind, body, dictionaries[kind.dictionary])
    return _LAYOUTS[kind.layout](kind, body)


def _null(_: Kind, body: Body) -> pa.Array:
    rows, _nulls = body.node()
    if rows > body.most_nulls:
        raise ArrowRefused(f"has {rows} rows of nothing, and {body.most_nulls} at most are taken")
    return pa.nulls(rows)


def _fixed(kind: Kind, body: Body) -> pa.Array:
    rows, nulls = body.node()
    valid = body.bitmap(rows, nulls)
    return pa.Array.from_buffers(kind.type, rows, [valid, body.buffer(rows * kind.width)], 0 if valid is None else -1)


def _variable(kind: Kind, body: Body) -> pa.Array:
    rows, nulls = body.node()
    valid = body.bitmap(rows, nulls)
    offsets = body.buffer((rows + 1) * kind.width if rows else 0)
    data = body.buffer(0)
    if not rows:
        return pa.array([], kind.type)
    if _last_of(offsets, rows, kind.width) > data.size:
        raise ArrowRefused("has a row that ends behind its buffer")
    return pa.Array.from_buffers(kind.type, rows, [valid, offsets, data], 0 if valid is None else -1)


def _view(kind: Kind, body: Body) -> pa.Array:
    """Views converted to plain arrays, in which each row has its own bytes."""
    rows, nulls = body.node()
    valid = body.bitmap(rows, nulls)
    views = body.buffer(rows * kind.width)
    shown = body.shown()
    if not rows:
        return pa.array([], kind.type)
    body.copy(_shown_bytes(views, rows, shown))
    given = pa.binary_view() if kind.type == pa.large_binary() else pa.string_view()
    return pa.Array.from_buffers(given, rows, [valid, views, *shown], 0 if valid is None else -1).cast(kind.type)


def _shown_bytes(views: Any, rows: int, shown: list[Any]) -> int:
    """Total bytes of the views; each of them, also one below a null, must lie within its buffer."""
    if np is None:
        raise ArrowRefused("has views, which are not taken without numpy")
    slots = np.frombuffer(views, np.int32, rows * VIEW_BYTES // 4).reshape(rows, 4)
    lengths = slots[:, 0].astype(np.int64)
    far = lengths > _INLINE
    buffer, start = slots[far, 2], slots[far, 3]
    sizes = np.array([each.size for each in shown], np.int64)
    sound = lengths.min() >= 0 and not ((buffer < 0) | (buffer >= len(shown)) | (start < 0)).any()
    if not sound or (start + lengths[far] > sizes[buffer]).any():
        raise ArrowRefused("has a view of what is not there")
    return int(lengths.sum())


def _list(kind: Kind, body: Body) -> pa.Array:
    rows, nulls = body.node()
    valid = body.bitmap(rows, nulls)
    offsets = body.buffer((rows + 1) * kind.width if rows else 0)
    (inner,) = kind.children
    values = _LAYOUTS[inner.layout](inner, body)
    if not rows:
        return pa.array([], kind.type)
    if _last_of(offsets, rows, kind.width) > len(values):
        raise ArrowRefused("has a list that ends behind its values")
    return pa.Array.from_buffers(kind.type, rows, [valid, offsets], 0 if valid is None else -1, 0, [values])


def _struct(kind: Kind, body: Body) -> pa.Array:
    rows, nulls = body.node()
    valid = body.bitmap(rows, nulls)
    members = [_LAYOUTS[inner.layout](inner, body) for inner in kind.children]
    if any(len(member) != rows for member in members):
        raise ArrowRefused("has a struct whose members are not as many as it says")
    return pa.Array.from_buffers(kind.type, rows, [valid], 0 if valid is None else -1, 0, members)


_LAYOUTS: Final[Mapping[str, Callable[[Kind, Body], pa.Array]]] = {
    "null": _null,
    "fixed": _fixed,
    "variable": _variable,
    "view": _view,
    "list": _list,
    "struct": _struct,
}


def _last_of(offsets: Any, rows: int, width: int) -> int:
    """End of the last row; raises ArrowRefused if offsets descend."""
    data: Any = memoryview(offsets)
    numbers: Any = data[: (rows + 1) * width].cast(_CODES[width])
    if numbers[0] < 0 or not (_few_rise(numbers) if rows < _FEW else _many_rise(numbers)):
        raise ArrowRefused("has rows that end before they begin")
    return int(numbers[rows])


def _few_rise(numbers: Any) -> bool:
    found: list[int] = numbers.tolist()
    return found == sorted(found)


def _many_rise(numbers: Any) -> bool:
    if np is not None:
        found: Any = np.asarray(numbers)
        return bool((found[1:] >= found[:-1]).all())
    whole = pa.Array.from_buffers(_TYPES[numbers.itemsize], len(numbers), [None, pa.py_buffer(numbers)])
    return bool(pc.all(pc.less_equal(whole.slice(0, len(whole) - 1), whole.slice(1))).as_py())


def _indexed(kind: Kind, body: Body, values: Any) -> pa.Array:
    """Dictionary array. An index below a null may be any number; Arrow gets a valid one instead."""
    given = _fixed(Kind("fixed", kind.type.index_type, kind.width), body)
    indexes: Any = given
    if given.null_count:
        filled = pc.fill_null(given, pa.scalar(0, given.type))
        indexes = pa.Array.from_buffers(given.type, len(given), [given.buffers()[0], filled.buffers()[1]])
    bounds = pc.min_max(indexes)
    low, high = bounds["min"].as_py(), bounds["max"].as_py()
    if low is not None and (low < 0 or high >= len(values)):
        raise ArrowRefused("has a row that is not in its dictionary")
    return pa.DictionaryArray.from_arrays(indexes, values)
