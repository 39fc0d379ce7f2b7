"""The quick way through a large envelope: all of its records have the same members, as nearly always. Pure.

Which members is guessed from the first record. A decoder that demands just these, of every record, then stands in for
asking each record what it has. A guess decides how long it takes, never what comes out.
"""

from __future__ import annotations

import json
from functools import lru_cache
from operator import attrgetter
from typing import Any, Final

import msgspec
from msgspec import Raw

from delta_log.records.record_columns import Contents, RecordColumns
from ingest_api.formats.decode.record_object import Embedded, Int64OrNull, TimestampOrNull
from ingest_api.formats.decode.rows import Read, are_shallow, count_inner

#: In the order of a Record's own; one with headers takes the slow way, which is no slower than its headers.
_FIELDS: Final = ("value", "key", "timestamp", "headers", "partition")
_MEMBERS: Final = ("value", "key", "timestamp", "partition")
_TYPES: Final[dict[Embedded, dict[str, Any]]] = {
    "binary": {"value": bytes | None, "key": bytes | None, "timestamp": TimestampOrNull, "partition": Int64OrNull},
    "json": {"value": Raw, "key": Raw, "timestamp": TimestampOrNull, "partition": Int64OrNull},
}
#: A first record that does not end within so many bytes is not guessed from: larger ones gain nothing.
_LOOKED_AT: Final = 4 * 1024
_scan_first: Final = json.JSONDecoder().raw_decode


def guess_members(body: bytes) -> tuple[str, ...]:
    """The members of the first record, as far as one can see; none where they are not only those above."""
    start = body.find(b"{", 1)
    try:
        first, _ = _scan_first(body[start : start + _LOOKED_AT].decode(errors="replace"))
    except (ValueError, RecursionError):
        return ()
    return tuple(name for name in _MEMBERS if name in first) if set(first).issubset(_MEMBERS) else ()


@lru_cache(64)
def decoder_alike(names: tuple[str, ...], embedded: Embedded, top: type[Any]) -> msgspec.json.Decoder[Any]:
    """What decodes a `top` of records that have these members, each of them; the fields are those of a Record.

    Fields that must not be there have a name that no member has: where it is given, there is a colon too many.
    """
    fields = [(name, _TYPES[embedded][name]) if name in names else (name, None, None) for name in _FIELDS]
    absent = {name: f"no {name}" for name in _FIELDS if name not in names}
    row = msgspec.defstruct("Row", fields, rename=absent, forbid_unknown_fields=True, kw_only=True, gc=False)
    return msgspec.json.Decoder(msgspec.defstruct("Top", [("records", list[row])], bases=(top,), kw_only=True))


def read_alike(rows: list[Any], names: tuple[str, ...], embedded: Embedded, partition: int | None) -> Read:
    colons, clear = len(names) * len(rows), True
    columns: dict[str, list[Any]] = {name: list(map(attrgetter(name), rows)) for name in names}
    if embedded == "json":
        for name in {"value", "key"}.intersection(names):
            texts = list(map(bytes, columns[name]))
            colons, clear = colons + count_inner(texts), clear and are_shallow(texts)
            columns[name] = [None if text == b"null" else text for text in texts] if b"null" in texts else texts
    values: Contents = columns["value"] if "value" in columns else [None] * len(rows)
    places = columns.get("partition")
    if partition is not None:
        clear = clear and {None, partition}.issuperset(places or ())
        places = [partition] * len(rows)
    return RecordColumns(values, columns.get("key"), columns.get("timestamp"), None, places), colons, clear
