"""Conversion between records and lines: `lakelog produce` reads lines, `lakelog consume` writes them. Pure, and hot.

Bytes are not changed. A line is a value; with a separator a key precedes it, and with headers these come first, as
`name:value,name:value` and a tab, as in Kafka's console tools. A line of JSON is a whole record: `{"base64": …}` stands
for bytes that are no text, so that `produce` reads exactly what `consume` wrote.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec

if TYPE_CHECKING:
    from lakelog.consume.shapes import ConsumerRecord

__all__ = ["JSON_FIELDS", "Line", "json_fields", "line_reader", "line_writer"]


class Line(NamedTuple):
    """Parts of a record in a line; None is null, or missing."""

    value: bytes | None
    key: bytes | None = None
    headers: list[tuple[str, bytes | None]] | None = None
    partition: int | None = None
    timestamp: int | None = None


class _Bytes(msgspec.Struct, forbid_unknown_fields=True):
    base64: str


class _Header(msgspec.Struct, forbid_unknown_fields=True):
    name: str
    value: msgspec.Raw = msgspec.Raw(b"null")


class _Record(msgspec.Struct, forbid_unknown_fields=True):
    """A record in JSON. `topic` and `offset` are its old ones, and ignored: it gets new ones."""

    value: msgspec.Raw = msgspec.Raw(b"null")
    key: msgspec.Raw = msgspec.Raw(b"null")
    headers: list[_Header] | None = None
    partition: int | None = None
    timestamp: int | None = None
    topic: str | None = None
    offset: int | None = None


class _Written(msgspec.Struct, gc=False):
    """A record as it is written. Its fields are `JSON_FIELDS`."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    key: Any
    value: Any
    headers: list[dict[str, Any]]


JSON_FIELDS: Final = _Written.__struct_fields__
_decode_record: Final = msgspec.json.Decoder(_Record).decode
_decode_bytes: Final = msgspec.json.Decoder(_Bytes).decode
_decode_text: Final = msgspec.json.Decoder(str).decode
_encode_lines: Final = msgspec.json.Encoder().encode_lines


def line_reader(form: str, key_separator: bytes | None, *, headers: bool) -> Callable[[bytes], Line]:
    """Build a reader of lines without their ends; it raises ValueError for a wrong line."""
    if form == "json":
        return _read_json
    if not headers and key_separator is None:
        return Line

    def read(line: bytes) -> Line:
        found: list[tuple[str, bytes | None]] | None = None
        key: bytes | None = None
        if headers:
            said, tab, line = line.partition(b"\t")
            if not tab:
                raise ValueError("there is no tab behind its headers")
            found = [_read_header(each) for each in said.split(b",") if each]
        if key_separator is not None:
            key, separator, line = line.partition(key_separator)
            if not separator:
                raise ValueError(f"there is no {key_separator.decode()!r} behind its key")
        return Line(line, key, found)

    return read


def line_writer(form: str, key_separator: bytes | None, *, headers: bool) -> Callable[[list[ConsumerRecord]], bytes]:
    """Build a writer of records as lines with their ends. A null is written as empty text, except in JSON."""
    if form == "json":
        return _write_json
    if not headers and key_separator is None:
        return lambda records: b"\n".join([record.value or b"" for record in records]) + b"\n"

    def write_one(record: ConsumerRecord) -> bytes:
        line = (record.value or b"") + b"\n"
        if key_separator is not None:
            line = (record.key or b"") + key_separator + line
        if headers:
            line = b",".join(_write_header(each.name, each.value) for each in record.headers) + b"\t" + line
        return line

    return lambda records: b"".join(map(write_one, records))


def json_fields(record: ConsumerRecord) -> tuple[Any, ...]:
    """The values of `JSON_FIELDS`."""
    return (
        record.topic,
        record.partition,
        record.offset,
        record.timestamp,
        _shown(record.key),
        _shown(record.value),
        [{"name": each.name, "value": _shown(each.value)} for each in record.headers] if record.headers else [],
    )


def _write_json(records: list[ConsumerRecord]) -> bytes:
    return _encode_lines([_Written(*json_fields(each)) for each in records])


def _shown(content: bytes | None) -> Any:
    if content is None:
        return None
    try:
        return content.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(content).decode()}


def _read_json(line: bytes) -> Line:
    try:
        record = _decode_record(line)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise ValueError(f"it is no record as JSON: {error}") from None
    headers = None if record.headers is None else [(each.name, _content(each.value)) for each in record.headers]
    return Line(_content(record.value), _content(record.key), headers, record.partition, record.timestamp)


def _content(raw: msgspec.Raw) -> bytes | None:
    """Decode content: text to its bytes, a `base64` object to its bytes, any other JSON as it was written."""
    said = bytes(raw).strip()
    if said == b"null":
        return None
    if said.startswith(b'"'):
        return _decode_text(said).encode()
    if said.startswith(b"{"):
        try:
            return base64.b64decode(_decode_bytes(said).base64, validate=True)
        except binascii.Error:
            raise ValueError("its base64 cannot be read") from None
        except msgspec.ValidationError:
            return said
    return said


def _read_header(said: bytes) -> tuple[str, bytes | None]:
    name, colon, value = said.partition(b":")
    return name.decode(), value if colon else None


def _write_header(name: str, value: bytes | None) -> bytes:
    return name.encode() + (b"" if value is None else b":" + value)
