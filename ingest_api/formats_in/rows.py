"""Decoded record objects as records, any member of which may be absent. Knows no envelope. Pure.

The loops are spelled out, once for each kind of embedded value: a call for each member would cost more than the
decoding. What they answer: the records; the colons in the body that those account for; and whether nothing in them
needs an exact look.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from msgspec import UNSET, Raw, UnsetType

from delta_log.types import Record
from ingest_api.formats_in.members import GivenHeader, Int64, Timestamp, header_pairs
from ingest_api.formats_in.strict_json import SURELY_SHALLOW, count_colons, is_shallow

Read = tuple[list[Record], int, bool]


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
    records: list[Record] = []
    colons, clear = 0, True
    for row in rows:
        key, value, timestamp, place, headers = row.key, row.value, row.timestamp, row.partition, row.headers
        if key is UNSET:
            key = None
        else:
            colons += 1
        if value is UNSET:
            value = None
        else:
            colons += 1
        if timestamp is UNSET:
            timestamp = None
        else:
            colons += 1
        if place is UNSET:
            place = partition
        else:
            colons += 1
            if partition is not None:
                clear, place = clear and place in (None, partition), partition
        pairs = None
        if headers is not UNSET:
            pairs = header_pairs(headers) if headers else None
            colons += 1 + _members_of(headers)
        records.append(Record(value, key, timestamp, pairs, place))
    return records, colons, clear


def read_json(rows: Sequence[JsonRow], partition: int | None) -> Read:
    records: list[Record] = []
    texts: list[bytes] = []
    colons, clear = 0, True
    for row in rows:
        key, value, timestamp, place, headers = row.key, row.value, row.timestamp, row.partition, row.headers
        if key is UNSET:
            key = None
        else:
            texts.append(key := bytes(key))
        if value is UNSET:
            value = None
        else:
            texts.append(value := bytes(value))
        if timestamp is UNSET:
            timestamp = None
        else:
            colons += 1
        if place is UNSET:
            place = partition
        else:
            colons += 1
            if partition is not None:
                clear, place = clear and place in (None, partition), partition
        pairs = None
        if headers is not UNSET:
            pairs = header_pairs(headers) if headers else None
            colons += 1 + _members_of(headers)
        value, key = None if value == b"null" else value, None if key == b"null" else key
        records.append(Record(value, key, timestamp, pairs, place))
    return records, colons + len(texts) + count_inner(texts), clear and are_shallow(texts)


def count_inner(texts: Sequence[bytes]) -> int:
    """The colons of embedded JSON."""
    return count_colons(texts[0] if len(texts) == 1 else b"".join(texts))


def are_shallow(texts: Sequence[bytes]) -> bool:
    return max(map(len, texts), default=0) <= SURELY_SHALLOW or all(map(is_shallow, texts))


def _members_of(headers: Sequence[GivenHeader] | None) -> int:
    return sum(1 if header.value is UNSET else 2 for header in headers) if headers else 0
