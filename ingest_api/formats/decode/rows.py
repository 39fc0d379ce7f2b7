"""Converts decoded record objects, of which any member may be absent, to records. Knows no envelope. Pure.

A `Read` is: the records; the number of colons in the body that belong to them; and if they need no exact check.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import msgspec
from msgspec import UNSET, Raw, UnsetType

from delta_log.model.types import Record
from delta_log.records.record_columns import Contents, RecordColumns
from ingest_api.formats.decode.record_object import GivenHeader, Int64, Timestamp, header_pairs
from ingest_api.formats.decode.strict_json import SURELY_SHALLOW, count_colons, is_shallow

T = TypeVar("T")
Read = tuple[Sequence[Record], int, bool]


class _Row(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    partition: Int64 | UnsetType | None = UNSET
    timestamp: Timestamp | UnsetType | None = UNSET
    headers: list[GivenHeader] | UnsetType | None = UNSET


class BinaryRow(_Row, gc=False):
    key: bytes | UnsetType | None = UNSET
    value: bytes | UnsetType | None = UNSET


class JsonRow(_Row, gc=False):
    key: Raw | UnsetType = UNSET
    value: Raw | UnsetType = UNSET


def read_binary(rows: Sequence[BinaryRow], partition: int | None) -> Read:
    if len(rows) == 1:
        plain = _read_plain(rows[0], partition)
        if plain is not None:
            return plain
    keys, of_keys = _column([row.key for row in rows])
    values, of_values = _column([row.value for row in rows])
    return _read(rows, values, keys, of_values + of_keys, partition)


def _read_plain(row: BinaryRow, partition: int | None) -> Read | None:
    """Fast path of the most frequent request: one record, with a value and perhaps a key."""
    key, value = row.key, row.value
    if value is UNSET or row.timestamp is not UNSET or row.partition is not UNSET or row.headers is not UNSET:
        return None
    if key is UNSET:
        return [Record(value, None, None, None, partition)], 1, True
    return [Record(value, key, None, None, partition)], 2, True


def read_json(rows: Sequence[JsonRow], partition: int | None) -> Read:
    keys, of_keys = _texts([row.key for row in rows])
    values, of_values = _texts([row.value for row in rows])
    texts = [text for column in (keys, values) if column is not None for text in column if text is not None]
    colons = of_values + of_keys + count_inner(texts)
    return _read(rows, _nulled(values), _nulled(keys), colons, partition, clear=are_shallow(texts))


def _read(
    rows: Sequence[_Row],
    values: Contents | None,
    keys: Contents | None,
    colons: int,
    partition: int | None,
    *,
    clear: bool = True,
) -> Read:
    timestamps, of_timestamps = _column([row.timestamp for row in rows])
    places, of_places = _column([row.partition for row in rows])
    headers, of_headers = _column([row.headers for row in rows])
    pairs = None
    if headers is not None:
        pairs = [header_pairs(given) if given else None for given in headers]
        of_headers += sum(map(_members_of, headers))
    if partition is not None:
        clear = clear and (places is None or {None, partition}.issuperset(places))
        places = [partition] * len(rows)
    contents: Contents = [None] * len(rows) if values is None else values
    columns = RecordColumns(contents, keys, timestamps, pairs, places)
    return columns, colons + of_timestamps + of_places + of_headers, clear


def _column(given: Sequence[T | UnsetType | None]) -> tuple[list[T | None] | None, int]:
    """Return the column of a member, None if no record has it, and the number of records that have it."""
    absent = given.count(UNSET)
    if absent == len(given):
        return None, 0
    return [None if content is UNSET else content for content in given], len(given) - absent


def _texts(given: list[Raw | UnsetType]) -> tuple[Contents | None, int]:
    column, count = _column(given)
    return None if column is None else [None if text is None else bytes(text) for text in column], count


def _nulled(texts: Contents | None) -> Contents | None:
    return [None if text == b"null" else text for text in texts] if texts and b"null" in texts else texts


def count_inner(texts: Sequence[bytes]) -> int:
    """Count the colons of embedded JSON."""
    return count_colons(texts[0] if len(texts) == 1 else b"".join(texts))


def are_shallow(texts: Sequence[bytes]) -> bool:
    return max(map(len, texts), default=0) <= SURELY_SHALLOW or all(map(is_shallow, texts))


def _members_of(headers: Sequence[GivenHeader] | None) -> int:
    return sum(1 if header.value is UNSET else 2 for header in headers) if headers else 0
