"""Answers to producers about their stored records. Pure; the hot path is encoded by hand."""

from __future__ import annotations

from typing import Final

import msgspec

from delta_log import Appended
from delta_log.transactions.buffered_records import Staged

_HEAD: Final = b'{"offsets":[{"partition":'
_OFFSET: Final = b',"offset":'
_EACH_END: Final = b',"error_code":null,"error":null}'
_TAIL: Final = b'],"key_schema_id":null,"value_schema_id":null}\n'
_ONE: Final = _HEAD + b"%d" + _OFFSET + b"%d" + _EACH_END + _TAIL


class Place(msgspec.Struct):
    """Where one record is. Null where that is not known: before it has its offset, or no more."""

    partition: int | None
    offset: int | None
    error_code: int | None = None
    error: str | None = None


class Offsets(msgspec.Struct, omit_defaults=True):
    """The answer of v2, an entry for each record of the request."""

    offsets: list[Place]
    key_schema_id: int | None
    value_schema_id: int | None
    duplicate: bool = False


class Range(msgspec.Struct):
    """A dense run of offsets."""

    partition: int
    base_offset: int
    count: int


class Ranges(msgspec.Struct, omit_defaults=True):
    """The answer to Arrow: a range for each partition; null where it is not known."""

    ranges: list[Range] | None
    duplicate: bool = False


def offsets_answer(appended: Appended, count: int) -> bytes:
    """Make v2's answer, with an entry for each of `count` records."""
    if appended.duplicate:
        return _duplicate_answer(appended, count)
    if count == 1:
        (only,) = appended.ranges
        return _ONE % (only.partition, only.base_offset)
    # Numbers are encoded as pairs, and the text between them is put in by replacing: no Python step for each record.
    places = msgspec.json.encode(list(zip(appended.partitions, appended.offsets(), strict=True)))
    spread = places[2:-2].replace(b"],[", b"|").replace(b",", _OFFSET)
    return b"".join((_HEAD, spread.replace(b"|", _EACH_END + b',{"partition":'), _EACH_END, _TAIL))


def ranges_answer(appended: Appended) -> bytes:
    ranges = [Range(given.partition, given.base_offset, given.count) for given in appended.ranges]
    return _line(Ranges(ranges or None, appended.duplicate))


def accepted_answer(count: int, *, as_ranges: bool) -> bytes:
    """Make the answer for records accepted with acks=0, which are not durable yet."""
    answer = Ranges(None) if as_ranges else Offsets([Place(None, None)] * count, None, None)
    return _line(answer)


def staged_answer(staged: Staged, *, as_ranges: bool) -> bytes:
    """Make the answer for records of an open transaction: the partition of each, and no offset yet."""
    if as_ranges:
        return _line(Ranges(None, staged.duplicate))
    places = [Place(partition, None) for partition in staged.partitions]
    return _line(Offsets(places, None, None, staged.duplicate))


def _duplicate_answer(appended: Appended, count: int) -> bytes:
    known = appended.offsets() if appended.ranges and appended.partitions else []
    places = [Place(*place) for place in zip(appended.partitions, known, strict=True)] if known else []
    return _line(Offsets(places or [Place(None, None)] * count, None, None, duplicate=True))


def _line(answer: Offsets | Ranges) -> bytes:
    return msgspec.json.encode(answer) + b"\n"
