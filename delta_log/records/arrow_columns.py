"""Converts a client's Arrow table to the columns of a request. Pure.

Arrow data describes its own layout: data that points outside its buffers, or text that is not UTF-8, would be stored
and then fail its readers. So no input is trusted: only listed types are accepted, and validated in full.

Arrow does not validate a view in a null slot, but its casts read it. So such views are emptied before a cast.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from delta_log.model.errors import InvalidRecord
from delta_log.model.schema import HEADERS, TIMESTAMP, integer

_COLUMNS: Final[tuple[tuple[str, pa.DataType], ...]] = (
    ("key", pa.binary()),
    ("value", pa.binary()),
    ("partition", pa.int32()),
    ("timestamp", TIMESTAMP),
    ("headers", HEADERS),
)
#: Columns that may be views.
_SHARING: Final = ("key", "value")
_VIEW: Final = 16
_BYTES: Final[frozenset[int]] = frozenset((pa.lib.Type_BINARY, pa.lib.Type_STRING))
_VIEWS: Final[frozenset[int]] = frozenset((pa.lib.Type_BINARY_VIEW, pa.lib.Type_STRING_VIEW))
_SHOWN: Final = 200
#: Types of which Arrow validates every slot, or casts them without reading null slots.
_TAKEN: Final[frozenset[int]] = frozenset(
    getattr(pa.lib, f"Type_{name}")
    for name in (
        "NA", "BOOL", "INT8", "INT16", "INT32", "INT64", "UINT8", "UINT16", "UINT32", "UINT64", "HALF_FLOAT", "FLOAT",
        "DOUBLE", "DECIMAL32", "DECIMAL64", "DECIMAL128", "DECIMAL256", "DATE32", "DATE64", "TIME32", "TIME64",
        "TIMESTAMP", "DURATION", "INTERVAL_MONTH_DAY_NANO", "BINARY", "LARGE_BINARY", "STRING", "LARGE_STRING",
        "FIXED_SIZE_BINARY", "LIST", "LARGE_LIST", "FIXED_SIZE_LIST", "MAP", "STRUCT", "DICTIONARY",
    )
)  # fmt: skip
_KNOWN: Final = frozenset(name for name, _ in _COLUMNS)


def read_columns(table: pa.Table) -> dict[str, pa.Array]:
    """The columns of the table, each cast to one array of the request's type; InvalidRecord if they are no request."""
    names: list[str] = table.column_names
    if "value" not in names or not _KNOWN.issuperset(names) or len(set(names)) < len(names):
        raise InvalidRecord(0, f"columns must be key, value, partition, timestamp, headers, each once, not {names}")
    given: dict[str, pa.ChunkedArray] = {name: table.column(name) for name in names}
    for name, column in given.items():
        _check_type(name, column.type)
    try:
        table.validate(full=True)
    except (pa.ArrowException, OSError) as error:
        raise InvalidRecord(0, f"not sound Arrow: {error}") from error
    columns = {name: _cast(given[name], name, kind) for name, kind in _COLUMNS if name in given}
    if "headers" in columns:
        _check_headers(columns["headers"])
    return columns


def content_bytes(columns: Mapping[str, pa.Array]) -> bytes:
    """Canonical bytes of the content, independent of its memory layout: of slices, and of bytes in null slots."""
    return b"".join(part for name, column in columns.items() for part in (name.encode(), *_content(column)))


def _check_type(name: str, kind: pa.DataType) -> None:
    """Refuse types that no column can have, and types whose null slots Arrow does not validate."""
    if kind.id in _BYTES or kind == HEADERS or (name in _SHARING and kind.id in _VIEWS):
        return
    if not all(part.id in _TAKEN for part in _parts(kind)):
        raise InvalidRecord(0, f"column {name} is of a type that is not taken: {str(kind)[:_SHOWN]}")


def _parts(kind: Any) -> Iterator[Any]:
    yield kind
    if kind.id == pa.lib.Type_DICTIONARY:
        yield from _parts(kind.value_type)
    for index in range(kind.num_fields):
        yield from _parts(kind.field(index).type)


def _emptied_nulls(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Replace the view in each null slot by an empty one."""
    return pa.chunked_array([_emptied(chunk) if chunk.null_count else chunk for chunk in column.chunks], column.type)


def _emptied(chunk: Any) -> pa.Array:
    _, views, *data = chunk.buffers()
    valid = chunk.is_valid()
    begin, end = chunk.offset * _VIEW, (chunk.offset + len(chunk)) * _VIEW
    slots = np.frombuffer(views, np.uint8)[begin:end].reshape(-1, _VIEW).copy()
    slots[~valid.to_numpy(zero_copy_only=False)] = 0
    bitmap = pa.concat_arrays([valid]).buffers()[1]
    return pa.Array.from_buffers(chunk.type, len(chunk), [bitmap, pa.py_buffer(slots), *data])


def _cast(column: pa.ChunkedArray, name: str, kind: pa.DataType) -> pa.Array:
    given = column.type
    whole = pa.types.is_integer(given)
    if name == "partition" and not (whole or pa.types.is_null(given)):
        raise InvalidRecord(0, f"column partition must be whole numbers, not {given}")
    if name == "timestamp" and not (whole or pa.types.is_timestamp(given) or pa.types.is_null(given)):
        raise InvalidRecord(0, f"column timestamp must be whole milliseconds or timestamps, not {given}")
    if given.id in _VIEWS:
        column = _emptied_nulls(column)
    try:
        if name == "timestamp" and whole:
            column = pc.multiply_checked(column.cast(pa.int64()), integer(1000))
        flat = column.cast(kind).combine_chunks()
    except (pa.ArrowException, OverflowError) as error:
        raise InvalidRecord(0, f"column {name}: {error}") from error
    if not isinstance(flat, pa.ChunkedArray):
        return flat
    if flat.num_chunks != 1:
        raise InvalidRecord(0, f"column {name} is too large for one request")
    return flat.chunk(0)


def _check_headers(headers: pa.Array) -> None:
    flat = headers.flatten()
    nameless = pc.or_(flat.is_null(), flat.field("key").is_null())
    at = pc.index(nameless, True).as_py()
    if at >= 0:
        raise InvalidRecord(pc.list_parent_indices(headers)[at].as_py(), "a header needs a name")


def _content(column: pa.Array) -> Iterator[bytes]:
    """The parts of `content_bytes`. A column without nulls adds no null bitmap, as each call to Arrow has a cost."""
    if column.null_count:
        yield _numbers(column.is_valid().cast(pa.uint8()))
    if pa.types.is_list(column.type):
        yield _numbers(pc.fill_null(pc.list_value_length(column), 0))
        flat = column.flatten()
        for index in range(flat.type.num_fields):
            yield from _content(flat.field(index))
    elif pa.types.is_timestamp(column.type):
        yield _numbers(pc.fill_null(column.cast(pa.int64()), 0))
    elif pa.types.is_integer(column.type):
        yield _numbers(pc.fill_null(column, 0))
    else:
        filled = column.cast(pa.binary())
        filled = pc.fill_null(filled, b"") if column.null_count else filled
        yield _numbers(pc.binary_length(filled))
        yield _bytes(filled)


def _numbers(column: pa.Array) -> bytes:
    width = column.type.bit_width // 8
    data = column.buffers()[1]
    return b"" if data is None else bytes(data[column.offset * width : (column.offset + len(column)) * width])


def _bytes(column: pa.Array) -> bytes:
    """The data of a binary array without nulls: one contiguous range of its buffer."""
    _, offsets, data = column.buffers()
    if data is None or not len(column):
        return b""
    bounds = pa.Array.from_buffers(pa.int32(), column.offset + len(column) + 1, [None, offsets])
    return bytes(data[bounds[column.offset].as_py() : bounds[column.offset + len(column)].as_py()])


def strictly_rising(numbers: pa.Array) -> bool:
    if len(numbers) < 2:  # noqa: PLR2004 - one number is in order
        return True
    return bool(pc.all(pc.greater(numbers.slice(1), numbers.slice(0, len(numbers) - 1))).as_py())
