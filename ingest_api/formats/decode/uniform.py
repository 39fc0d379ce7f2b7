"""Fast path for a large envelope whose records all have the same members, as nearly always. Pure.

The members are guessed from the first record. A decoder that requires exactly these of every record then replaces a
check of each record. The guess affects the time it takes, never the result.
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

#: In the order of a Record's fields. Records with headers take the slow path: headers cost more than it does.
_FIELDS: Final = ("value", "key", "timestamp", "headers", "partition")
_MEMBERS: Final = ("value", "key", "timestamp", "partition")
_TYPES: Final[dict[Embedded, dict[str, Any]]] = {
    "binary": {"value": bytes | None, "key": bytes | None, "timestamp": TimestampOrNull, "partition": Int64OrNull},
    "json": {"value": Raw, "key": Raw, "timestamp": TimestampOrNull, "partition": Int64OrNull},
}
#: Largest first record that is guessed from, in bytes: larger ones gain nothing.
_LOOKED_AT: Final = 4 * 1024
_scan_first: Final = json.JSONDecoder().raw_decode


def guess_members(body: bytes) -> tuple[str, ...]:
    """Guess the members of the first record; empty if it has others than those above."""
    start = body.find(b"{", 1)
    try:
        first, _ = _scan_first(body[start : start + _LOOKED_AT].decode(errors="replace"))
    except (ValueError, RecursionError):
        return ()
    return tuple(name for name in _MEMBERS if name in first) if set(first).issubset(_MEMBERS) else ()


@lru_cache(64)
def decoder_alike(names: tuple[str, ...], embedded: Embedded, top: type[Any]) -> msgspec.json.Decoder[Any]:
    """Make the decoder of a `top` whose records have exactly these members; the fields are those of a Record.

    An excluded field gets a name that no member has: if a body has it, there is one colon too many.
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
