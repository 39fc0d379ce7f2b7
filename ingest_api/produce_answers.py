"""What a producer is told of records that are stored. Pure, and written by hand where it is hot."""

from __future__ import annotations

import msgspec

from delta_log import Appended

_START, _END = '{"offsets":[', '],"key_schema_id":null,"value_schema_id":null}\n'
_EACH = '{"partition":%d,"offset":%d,"error_code":null,"error":null}'
_ONE = (_START + _EACH + _END).encode()


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
    """An entry for each of `count` records."""
    if appended.duplicate:
        return _duplicate_answer(appended, count)
    offsets = appended.offsets()
    if len(offsets) == 1:
        return _ONE % (appended.partitions[0], offsets[0])
    places = [_EACH % place for place in zip(appended.partitions, offsets, strict=True)]
    return "".join((_START, ",".join(places), _END)).encode()


def ranges_answer(appended: Appended) -> bytes:
    ranges = [Range(given.partition, given.base_offset, given.count) for given in appended.ranges]
    return _line(Ranges(ranges or None, appended.duplicate))


def accepted_answer(count: int, *, as_ranges: bool) -> bytes:
    """Of records that will be stored, if nothing happens."""
    answer = Ranges(None) if as_ranges else Offsets([Place(None, None)] * count, None, None)
    return _line(answer)


def _duplicate_answer(appended: Appended, count: int) -> bytes:
    known = appended.offsets() if appended.ranges and appended.partitions else []
    places = [Place(*place) for place in zip(appended.partitions, known, strict=True)] if known else []
    return _line(Offsets(places or [Place(None, None)] * count, None, None, duplicate=True))


def _line(answer: Offsets | Ranges) -> bytes:
    return msgspec.json.encode(answer) + b"\n"
