"""Records as v3 has them, and the receipts for them. Pure.

A wrong shape of a record is a `Fault`, and so is content that does not match its type.
"""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Final, Literal, NamedTuple

import msgspec

from delta_log.model.types import Header, Record
from ingest_api.formats.decode.record_errors import Fault, shown
from ingest_api.formats.decode.record_object import GivenHeader, header_pairs
from ingest_api.formats.decode.strict_json import MOST_NESTED, check_text, decode_base64, is_shallow, say

TYPES: Final = ("BINARY", "JSON", "STRING")
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_INSTANT: Final = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt][0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]{1,9})?(?:[Zz]|[+-][0-9]{2}:[0-9]{2})"
)
_NULL: Final = b"null"

Int32 = Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)]
Int64 = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]


class Datum(msgspec.Struct, forbid_unknown_fields=True):
    """A key or value. `data` is base64 of type BINARY, any JSON of type JSON, text of type STRING; null is null."""

    type: str
    data: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET


class GivenRecord(msgspec.Struct, forbid_unknown_fields=True):
    """A record to be stored. `timestamp` is a date and time of RFC 3339, or milliseconds since 1970."""

    partition_id: Int32 | None = None
    headers: list[GivenHeader] | None = None
    key: Datum | None = None
    value: Datum | None = None
    timestamp: str | Int64 | None = None


class GivenEntry(GivenRecord, kw_only=True):
    """A record of a batch; its `id` is found again in the answer."""

    id: Annotated[str, msgspec.Meta(pattern="^[0-9A-Za-z_-]{1,80}$")]


class Size(msgspec.Struct):
    """How a key or value was sent, and how many bytes are stored of it."""

    type: str
    size: int


class Receipt(msgspec.Struct, omit_defaults=True):
    """A record is stored."""

    cluster_id: str
    topic_name: str
    partition_id: int
    offset: int
    timestamp: str
    key: Size | None = None
    value: Size | None = None


class StreamReceipt(Receipt, kw_only=True):
    error_code: Literal[200]


class EntryReceipt(Receipt, kw_only=True):
    id: str


class Sent(NamedTuple):
    """A record as the log takes it, and the type and size of key and value for its receipt."""

    record: Record
    key: Size | None
    value: Size | None


def read_record(text: bytes, decoder: msgspec.json.Decoder[GivenRecord]) -> GivenRecord:
    """Decode an object of a stream."""
    check_text(text)
    check_shallow(text)
    try:
        given = decoder.decode(text)
    except msgspec.DecodeError as error:
        raise Fault(say(error)) from None
    check_record_members(text)
    return given


def convert_record(given: GivenRecord) -> Sent:
    """Convert a record of the right shape to the one that is stored."""
    headers: tuple[Header, ...] | None = None
    if given.headers:
        headers = header_pairs(given.headers)
    key, value = _content(given.key, "key"), _content(given.value, "value")
    timestamp = _milliseconds(given.timestamp) if isinstance(given.timestamp, str) else given.timestamp
    record = Record(value, key, timestamp, headers, given.partition_id)
    return Sent(record, _size(given.key, key), _size(given.value, value))


def check_shallow(text: bytes) -> None:
    if not is_shallow(text):
        raise Fault(f"is nested deeper than {MOST_NESTED} levels")


def write_instant(milliseconds: int) -> str:
    """Format a time as Java does: milliseconds only if they are not 0."""
    text = (_EPOCH + timedelta(milliseconds=milliseconds)).isoformat(
        timespec="milliseconds" if milliseconds % 1000 else "seconds"
    )
    return text.removesuffix("+00:00") + "Z"


class _Members(tuple[tuple[str, Any], ...]):
    """The members of an object, repeated ones included."""

    __slots__ = ()


def check_record_members(text: bytes) -> None:
    """Refuse a repeated member of a record; `text` is known to be a record that is not nested deeply."""
    _check_record(_read_members(text))


def check_batch_members(text: bytes) -> None:
    """Refuse a repeated member of a batch or of its entries."""
    batch = _read_members(text)
    _check_names(batch)
    for _, entries in batch:
        for entry in entries:
            _check_record(entry)


def _read_members(text: bytes) -> Any:
    return json.loads(text, object_pairs_hook=_Members, parse_int=str, parse_float=str)


def _check_record(record: _Members) -> None:
    """Check the members of a record, but none inside of `data`, which is the sender's own."""
    _check_names(record)
    for name, content in record:
        if name in ("key", "value") and content is not None:
            _check_names(content)
        elif name == "headers":
            for header in content or ():
                _check_names(header)


def _check_names(members: _Members) -> None:
    if len({name for name, _ in members}) < len(members):
        raise Fault("has a member that is given twice")


def _content(given: Datum | None, name: str) -> bytes | None:
    if given is None:
        return None
    raw = _NULL if given.data is msgspec.UNSET else bytes(given.data)
    if given.type not in TYPES:
        why = "needs a schema registry, which there is not" if given.type.isupper() else "is not known"
        raise Fault(f"its {name}: type {shown(given.type)} {why}; there are {', '.join(TYPES)}")
    if raw == _NULL:
        return None
    if given.type == "JSON":
        return raw
    if not raw.startswith(b'"'):
        raise Fault(f"its {name}: data of type {given.type} is text")
    text = msgspec.json.decode(raw, type=str)
    if given.type == "STRING":
        return text.encode()
    try:
        return decode_base64(text)
    except Fault as fault:
        raise Fault(f"its {name}: {fault}") from None


def _size(given: Datum | None, content: bytes | None) -> Size | None:
    return None if given is None else Size(given.type, len(content or b""))


def _milliseconds(text: str) -> int:
    if not _INSTANT.fullmatch(text):
        raise Fault(f"its timestamp: {shown(text)} is no date and time of RFC 3339")
    try:
        return (datetime.fromisoformat(text.upper()) - _EPOCH) // timedelta(milliseconds=1)
    except (ValueError, OverflowError):
        raise Fault(f"its timestamp: {shown(text)} is no date and time that there is") from None
