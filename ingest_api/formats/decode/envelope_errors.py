"""The errors of a v2 envelope, by a slow and exact check. Pure.

It decides if the fast path (`envelope`) cannot, and it alone describes the errors, for every bad record.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec
from msgspec import UNSET, Raw, UnsetType

from ingest_api.formats.decode.record_errors import MOST_NAMED, Fault, Faults, refuse_count, refuse_records
from ingest_api.formats.decode.record_object import Embedded, check_record
from ingest_api.formats.decode.strict_json import check_text, count_octet, outline, read_object, read_typed
from ingest_api.web.errors import Refusal


class _Top(msgspec.Struct, forbid_unknown_fields=True):
    records: Raw | UnsetType = UNSET
    key_schema: Raw | UnsetType = UNSET
    key_schema_id: Raw | UnsetType = UNSET
    value_schema: Raw | UnsetType = UNSET
    value_schema_id: Raw | UnsetType = UNSET


_TOP: Final = msgspec.json.Decoder(_Top)
_RECORDS: Final = msgspec.json.Decoder(list[Raw])


def check_record_count(body: bytes, most: int) -> None:
    """Refuse a body of too many records before anything is built from it."""
    if count_octet(body, b"{") <= most + 1:
        return
    try:
        check_text(body)
    except Fault as fault:
        raise Refusal(422, f"the body is {fault}") from None
    _check_count(body, most)


def check_envelope(body: bytes, *, embedded: Embedded, partition: int | None, most_records: int) -> None:
    try:
        check_text(body)
    except Fault as fault:
        raise Refusal(422, f"the body is {fault}") from None
    try:
        given = _records_of(read_object(body, _TOP))
        if count_octet(body, b",") >= most_records:
            _check_count(body, most_records)
        records: list[Raw] = read_typed(given, _RECORDS)
    except Fault as fault:
        raise Refusal(422, f"the request cannot be used: {fault}") from None
    if not 1 <= len(records) <= most_records:
        raise refuse_count(len(records), most_records)
    faults: Faults = []
    for index, text in enumerate(records):
        try:
            check_record(text, embedded, partition)
        except Fault as fault:
            faults.append((index, str(fault)))
            if len(faults) == MOST_NAMED:
                break
    if faults:
        raise refuse_records(faults, len(records))


def _check_count(body: bytes, most: int) -> None:
    elements = outline(body)[1]
    if elements > most:
        raise refuse_count(elements, most)


def _records_of(top: Any) -> Raw:
    for name in _TOP.type.__struct_fields__[1:]:
        given = getattr(top, name)
        if given is not UNSET and bytes(given) != b"null":
            raise Fault(f"{name} must be null, as there is no schema registry")
    if top.records is UNSET:
        raise Fault("it has no member records")
    return top.records
