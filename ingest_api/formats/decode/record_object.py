"""The slow, exact check of a record object, as all JSON formats have it. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import UNSET, Meta, Raw, UnsetType

from delta_log.model.topic_settings import INT64_MAX
from delta_log.model.types import Header
from delta_log.records.validation import LATEST_TIMESTAMP
from ingest_api.formats.decode.record_errors import Fault
from ingest_api.formats.decode.strict_json import (
    INT64_MIN,
    MOST_NESTED,
    decode_base64,
    is_shallow,
    read_object,
    read_typed,
)

Embedded = Literal["binary", "json"]
Int64 = Annotated[int, Meta(ge=INT64_MIN, le=INT64_MAX)]
Timestamp = Annotated[int, Meta(ge=0, le=LATEST_TIMESTAMP)]
Int64OrNull = Int64 | None
TimestampOrNull = Timestamp | None

MOST_HEADERS: Final = 100
MOST_HEADER_BYTES: Final = 64 * 1024


class GivenHeader(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    name: str
    value: str | UnsetType | None = UNSET


class _Record(msgspec.Struct, forbid_unknown_fields=True):
    key: Raw | UnsetType = UNSET
    value: Raw | UnsetType = UNSET
    partition: Raw | UnsetType = UNSET
    timestamp: Raw | UnsetType = UNSET
    headers: Raw | UnsetType = UNSET


class _Header(msgspec.Struct, forbid_unknown_fields=True):
    name: Raw | UnsetType = UNSET
    value: Raw | UnsetType = UNSET


_RECORD: Final = msgspec.json.Decoder(_Record)
_HEADERS: Final = msgspec.json.Decoder(list[GivenHeader] | None)
_RAWS: Final = msgspec.json.Decoder(list[Raw])
_HEADER: Final = msgspec.json.Decoder(_Header)
_PARTITION: Final = msgspec.json.Decoder(Int64OrNull)
_TIMESTAMP: Final = msgspec.json.Decoder(TimestampOrNull)
_TEXT_OR_NULL: Final = msgspec.json.Decoder(str | None)


def check_record(text: Raw, embedded: Embedded, partition: int | None) -> None:
    """Raise the Fault of a bad record; its text is known to be JSON."""
    record = read_object(text, _RECORD)
    check_embedded = _check_binary if embedded == "binary" else _check_json
    _check(record.key, "its key", check_embedded)
    _check(record.value, "its value", check_embedded)
    _check(record.partition, "its partition", lambda given: _check_partition(given, partition))
    _check(record.timestamp, "its timestamp", lambda given: read_typed(given, _TIMESTAMP))
    _check(record.headers, "its headers", _check_headers)


def header_pairs(given: Sequence[GivenHeader]) -> tuple[Header, ...] | None:
    """Convert headers to those of the log; raises Fault if a value is not base64 or there are too many."""
    if len(given) > MOST_HEADERS:
        raise Fault(f"a record has at most {MOST_HEADERS} headers, not {len(given)}")
    pairs = tuple((header.name, _decode_content(header.value)) for header in given)
    check_header_bytes(pairs)
    return pairs or None


def check_header_bytes(pairs: Sequence[Header]) -> None:
    size = sum(len(name.encode()) + len(content or b"") for name, content in pairs)
    if size > MOST_HEADER_BYTES:
        raise Fault(f"the headers of a record have at most {MOST_HEADER_BYTES} bytes, not {size}")


def _check(given: Raw | UnsetType, name: str, check: Callable[[Raw], Any]) -> None:
    if given is UNSET:
        return
    try:
        check(given)
    except Fault as fault:
        raise Fault(f"{name}: {fault}") from None


def _check_binary(given: Raw) -> None:
    text = read_typed(given, _TEXT_OR_NULL)
    if text is not None:
        decode_base64(text)


def _check_json(given: Raw) -> None:
    if not is_shallow(bytes(given)):
        raise Fault(f"nested deeper than {MOST_NESTED} levels")


def _check_partition(given: Raw, partition: int | None) -> None:
    found = read_typed(given, _PARTITION)
    if partition is not None and found is not None and found != partition:
        raise Fault(f"{found}, but the request is for partition {partition}")


def _check_headers(given: Raw) -> None:
    headers: list[GivenHeader] = read_typed(given, _HEADERS) or []
    header_pairs(headers)
    for index, raw in enumerate(_RAWS.decode(given) if headers else ()):
        try:
            read_object(raw, _HEADER)
        except Fault as fault:
            raise Fault(f"header {index}: {fault}") from None


def _decode_content(given: str | UnsetType | None) -> bytes | None:
    return decode_base64(given) if isinstance(given, str) else None
