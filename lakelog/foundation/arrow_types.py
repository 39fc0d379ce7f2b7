"""The schema of an Arrow stream: which types are accepted, and where their buffers are. Pure.

An allowlist: a type that Arrow gets tomorrow is refused until it is added here. Of accepted types every slot of a
buffer is checked, also one below a null: Arrow's own checks skip a view below a null, while its casts read it.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Final, NamedTuple

import pyarrow as pa

from lakelog.foundation.flatbuffer import Malformed, Table, needed

#: Schemas of up to this many bytes are cached, as a producer sends the same one with every request.
_REMEMBERED: Final = 4096
_MOST_COLUMNS: Final = 16
_EXTENSION: Final = b"ARROW:extension:name"
_SHOWN: Final = 100
#: The numbers of fields in their tables of the format's schema.
_FIELD_NAME, _FIELD_KIND, _FIELD_TYPE, _FIELD_DICTIONARY, _FIELD_CHILDREN, _FIELD_METADATA = 0, 2, 3, 4, 5, 6
_SCHEMA_ENDIANNESS, _SCHEMA_FIELDS = 0, 1
_MESSAGE_VERSION, _MESSAGE_KIND, _MESSAGE_HEADER, _MESSAGE_BODY = 0, 1, 2, 3
#: The kinds of messages, and the versions V4 and V5.
SCHEMA, DICTIONARY, BATCH = 1, 2, 3
_VERSIONS: Final = (3, 4)
#: The format's names of its types, in the order of their numbers.
_NAMES: Final = (
    "none", "null", "integer", "floating point", "binary", "string", "bool", "decimal", "date", "time", "timestamp",
    "interval", "list", "struct", "union", "fixed_size_binary", "fixed_size_list", "map", "duration", "large_binary",
    "large_string", "large_list", "run_end_encoded", "binary_view", "string_view", "list_view", "large_list_view",
)  # fmt: skip
_NULL, _INT, _BINARY, _TEXT, _TIMESTAMP, _LIST, _STRUCT, _FIXED, _MAP = 1, 2, 4, 5, 10, 12, 13, 15, 17
_LARGE_BINARY, _LARGE_TEXT, _LARGE_LIST = 19, 20, 21
_VARIABLE: Final = {
    _BINARY: (pa.binary(), 4),
    _TEXT: (pa.string(), 4),
    _LARGE_BINARY: (pa.large_binary(), 8),
    _LARGE_TEXT: (pa.large_string(), 8),
}
_BYTES: Final = frozenset((*_VARIABLE, _FIXED))
#: Views are converted to these types.
_VIEWS: Final = {23: pa.large_binary(), 24: pa.large_string()}
VIEW_BYTES: Final = 16
_INTEGERS: Final = {
    (8, 1): pa.int8(), (16, 1): pa.int16(), (32, 1): pa.int32(), (64, 1): pa.int64(),
    (8, 0): pa.uint8(), (16, 0): pa.uint16(), (32, 0): pa.uint32(), (64, 0): pa.uint64(),
}  # fmt: skip
_UNITS: Final = ("s", "ms", "us", "ns")


class ArrowRefused(ValueError):
    """Refusal of an Arrow stream; its message is the end of a sentence about the stream."""


class Kind(NamedTuple):
    """An accepted type: `width` is the bytes of a value, or of an offset if values have variable length."""

    layout: str
    type: Any
    width: int = 0
    children: tuple[Kind, ...] = ()
    dictionary: int | None = None


class Columns(NamedTuple):
    """A schema: its kinds, and the kinds of the values of dictionaries by the dictionary's number."""

    schema: Any
    kinds: tuple[Kind, ...]
    dictionaries: dict[int, Kind]


def read_schema(metadata: bytes) -> Columns:
    """The columns that a message declares; ArrowRefused names the first that is not accepted."""
    return _remembered(metadata) if len(metadata) <= _REMEMBERED else _read_schema(metadata)


def kind_of(message: Table) -> int:
    """Kind of a message; raises ArrowRefused for a version with other layouts."""
    if message.number(_MESSAGE_VERSION, "h") not in _VERSIONS:
        raise ArrowRefused("is of a version of the format that is not taken: V4 and V5 are")
    return message.number(_MESSAGE_KIND, "B")


def _read_schema(metadata: bytes) -> Columns:
    message = Table.root(metadata)
    if kind_of(message) != SCHEMA or message.number(_MESSAGE_BODY, "q"):
        raise ArrowRefused("does not begin with a schema")
    schema = needed(message.table(_MESSAGE_HEADER), "schema")
    if schema.number(_SCHEMA_ENDIANNESS, "h"):
        raise ArrowRefused("is big-endian: little-endian is taken")
    if schema.count(_SCHEMA_FIELDS) > _MOST_COLUMNS:
        raise ArrowRefused(f"has {schema.count(_SCHEMA_FIELDS)} columns: {_MOST_COLUMNS} at most are taken")
    fields: list[tuple[str, Kind]] = []
    dictionaries: dict[int, Kind] = {}
    for field in schema.tables(_SCHEMA_FIELDS, most=_MOST_COLUMNS):
        name = field.text(_FIELD_NAME) or ""
        if _EXTENSION in metadata:
            _refuse_extension(field, name)
        kind = _read_column(field, name, dictionaries)
        fields.append((name, kind))
    if _EXTENSION in metadata:
        raise ArrowRefused("has columns of extension types, which are not taken")
    return Columns(pa.schema([(name, kind.type) for name, kind in fields]), tuple(k for _, k in fields), dictionaries)


_remembered: Final = lru_cache(64)(_read_schema)


def _read_column(field: Table, name: str, dictionaries: dict[int, Kind]) -> Kind:
    encoding = field.table(_FIELD_DICTIONARY)
    number = field.number(_FIELD_KIND, "B")
    if encoding is not None:
        if number not in _BYTES:
            raise _refused(name, f"dictionary of {_name_of(number)}")
        values = _bytes_kind(field, number, name)
        index = encoding.table(1)
        indexes = _INTEGERS[32, 1] if index is None else _integer(index, name)
        key = encoding.number(0, "q")
        if dictionaries.setdefault(key, values).type != values.type:
            raise ArrowRefused(f"has a column {shown(name)} that shares a dictionary with another one of another type")
        return Kind("dictionary", pa.dictionary(indexes, values.type), indexes.bit_width // 8, (values,), key)
    if number in (_LIST, _LARGE_LIST, _MAP):
        return _list_kind(field, number, name)
    return _flat_kind(field, number, name)


def _flat_kind(field: Table, number: int, name: str) -> Kind:
    if number in _BYTES:
        return _bytes_kind(field, number, name)
    if number in _VIEWS:
        return Kind("view", _VIEWS[number], VIEW_BYTES)
    if number == _NULL:
        return Kind("null", pa.null())
    described = needed(field.table(_FIELD_TYPE), "type")
    if number == _INT:
        integer = _integer(described, name)
        return Kind("fixed", integer, integer.bit_width // 8)
    if number == _TIMESTAMP:
        # An instant is the same in every zone, so Arrow need not see the stream's name of the zone.
        unit = described.number(0, "h")
        if not 0 <= unit < len(_UNITS):
            raise Malformed("a timestamp of an unknown unit")
        return Kind("fixed", pa.timestamp(_UNITS[unit], "UTC" if described.has(1) else None), 8)
    raise _refused(name, _name_of(number))


def _bytes_kind(field: Table, number: int, name: str) -> Kind:
    if number != _FIXED:
        return Kind("variable", *_VARIABLE[number])
    width = needed(field.table(_FIELD_TYPE), "type").number(0, "i")
    if width <= 0:
        raise _refused(name, f"fixed_size_binary[{width}]")
    return Kind("fixed", pa.binary(width), width)


def _list_kind(field: Table, number: int, name: str) -> Kind:
    """Kind of a list of headers: a key and a value each, of text or bytes. A map is read as its list of pairs."""
    outer = _name_of(number)
    if field.count(_FIELD_CHILDREN) != 1:
        raise Malformed("a list of no type")
    (each,) = field.tables(_FIELD_CHILDREN, most=1)
    inside = each.number(_FIELD_KIND, "B")
    if each.has(_FIELD_DICTIONARY) or inside not in (_NULL, _STRUCT):
        raise _refused(name, f"{outer} of {_name_of(inside)}")
    width, make = (8, pa.large_list) if number == _LARGE_LIST else (4, pa.list_)
    if inside == _NULL:
        return Kind("list", make(pa.null()), width, (Kind("null", pa.null()),))
    members = each.tables(_FIELD_CHILDREN, most=3)
    names = ("key", "value") if number == _MAP else tuple(member.text(_FIELD_NAME) or "" for member in members)
    kinds = [_member_kind(member, label, name, outer) for member, label in zip(members, names, strict=False)]
    if len(members) != len(names) or sorted(names) != ["key", "value"]:
        raise ArrowRefused(f"has a column {shown(name)} of type {outer} of struct, which must have key and value alone")
    struct = pa.struct([pa.field(label, kind.type) for label, kind in zip(names, kinds, strict=True)])
    # The field's name in the schema of the table.
    return Kind("list", make(pa.field("element", struct)), width, (Kind("struct", struct, 0, tuple(kinds)),))


def _member_kind(member: Table, label: str, name: str, outer: str) -> Kind:
    number = member.number(_FIELD_KIND, "B")
    encoded = member.has(_FIELD_DICTIONARY)
    taken = number in _BYTES or number in _VIEWS or (number == _NULL and label == "value")
    if encoded or not taken:
        raise _refused(name, f"{outer} of struct with {'dictionary of ' if encoded else ''}{_name_of(number)}")
    return _flat_kind(member, number, name)


def _integer(described: Table, name: str) -> Any:
    width, signed = described.number(0, "i"), described.number(1, "B")
    found = _INTEGERS.get((width, signed))
    if found is None:
        raise _refused(name, f"integer of {width} bits")
    return found


def _refuse_extension(field: Table, name: str) -> None:
    for pair in field.tables(_FIELD_METADATA, most=_MOST_COLUMNS):
        if pair.text(0) == _EXTENSION.decode():
            raise _refused(name, f"extension<{(pair.text(1) or '')[:_SHOWN]}>")


def _refused(name: str, kind: str) -> ArrowRefused:
    return ArrowRefused(f"has a column {shown(name)} of type {kind}, which is not taken")


def _name_of(number: int) -> str:
    return _NAMES[number] if number < len(_NAMES) else f"number {number}"


def shown(name: str) -> str:
    return repr(name if len(name) <= _SHOWN else name[:_SHOWN] + "…")
