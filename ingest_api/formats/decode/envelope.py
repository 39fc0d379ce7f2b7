"""The v2 envelope: `{"records": [{key?, value?, partition?, headers?, timestamp?}]}`. Pure.

A valid body takes one pass: msgspec decodes it into typed structs, and a few searches of the whole body check what
msgspec does not. If these are not conclusive, the exact check (`envelope_errors`) decides; it alone words the errors.

A repeated member is found by counting. Outside of embedded values and of headers' names every colon belongs to a
member, so there are as many colons as decoded members, unless a repeated member was dropped. An escaped colon in a
header's name is not in the body; a plain one is, and leads to the exact check.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec
from msgspec import UNSET, UnsetType

from delta_log.model.types import Record
from ingest_api.formats.decode.envelope_errors import check_envelope, check_record_count
from ingest_api.formats.decode.record_errors import Fault
from ingest_api.formats.decode.record_object import Embedded
from ingest_api.formats.decode.rows import BinaryRow, JsonRow, Read, read_binary, read_json
from ingest_api.formats.decode.strict_json import UNREADABLE, count_colons, find_bad_utf8, may_have_loose_base64
from ingest_api.formats.decode.uniform import decoder_alike, guess_members, read_alike
from ingest_api.web.errors import Refusal

#: Size of the smallest record with its comma.
_SMALLEST: Final = 3
#: Body size from which a guess of the members is worth its cost.
_LARGE: Final = 16 * 1024


class _Top(msgspec.Struct, forbid_unknown_fields=True, gc=False, kw_only=True):
    key_schema: UnsetType | None = UNSET
    key_schema_id: UnsetType | None = UNSET
    value_schema: UnsetType | None = UNSET
    value_schema_id: UnsetType | None = UNSET


class _BinaryTop(_Top, gc=False, kw_only=True):
    records: list[BinaryRow]


class _JsonTop(_Top, gc=False, kw_only=True):
    records: list[JsonRow]


_BINARY: Final = msgspec.json.Decoder(_BinaryTop)
_JSON: Final = msgspec.json.Decoder(_JsonTop)


def decode_envelope(
    body: bytes, *, embedded: Embedded, partition: int | None = None, most_records: int
) -> Sequence[Record]:
    """Decode the records of a request, all for `partition` if given. A Refusal names each bad record."""
    if len(body) > _SMALLEST * most_records:
        check_record_count(body, most_records)
    records: Sequence[Record] = ()
    clear = False
    try:
        records, clear = _decode(body, embedded, partition)
    except (*UNREADABLE, Fault):
        pass  # the exact check words the error
    if not clear or not 1 <= len(records) <= most_records:
        check_envelope(body, embedded=embedded, partition=partition, most_records=most_records)
    if not records:
        raise Refusal(422, "the body cannot be read")
    return records


def _decode(body: bytes, embedded: Embedded, partition: int | None) -> tuple[Sequence[Record], bool]:
    """Decode the records; returns also if they are certainly valid, without the exact check."""
    read = _decode_alike(body, embedded, partition) if len(body) >= _LARGE else None
    if read is not None:
        top, (records, colons, clear) = read
    elif embedded == "binary":
        top = _BINARY.decode(body)
        records, colons, clear = read_binary(top.records, partition)
    else:
        top = _JSON.decode(body)
        records, colons, clear = read_json(top.records, partition)
    own = count_colons(body) - colons
    if not clear or (own != 1 and own != _count_members(top)):
        return records, False
    if embedded == "json":
        return records, find_bad_utf8(body) is None
    # Base64 may be escaped, and its last bits are not checked yet.
    return records, not (b"\\" in body and b"\\u" in body) and not may_have_loose_base64(body)


def _decode_alike(body: bytes, embedded: Embedded, partition: int | None) -> tuple[_Top, Read] | None:
    names = guess_members(body)
    if not names:
        return None
    try:
        top: Any = decoder_alike(names, embedded, _Top).decode(body)
    except msgspec.ValidationError:
        return None
    return top, read_alike(top.records, names, embedded, partition)


def _count_members(top: _Top) -> int:
    return 5 - (top.key_schema, top.key_schema_id, top.value_schema, top.value_schema_id).count(UNSET)
