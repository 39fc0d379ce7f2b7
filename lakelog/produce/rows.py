"""Record in wire form, built from a caller's record. Pure, and hot: nothing here is done twice.

The wire is the binary envelope of the HTTP API: msgspec writes bytes as base64.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, cast

import msgspec

from lakelog.foundation.errors import InvalidRecord, NotSerializable, RecordTooLarge
from lakelog.foundation.serializers import serializer_of, to_bytes

Headers = Mapping[str, bytes | None] | Iterable[tuple[str, bytes | None]]

#: Size of a record beside its key, value and headers: on the wire, and as an object.
RECORD_OVERHEAD: Final = 64
#: Kafka's record-batch overhead and the most that one record's own fields add to it.
_BATCH_OVERHEAD: Final = 61 + 21
#: The most overhead of a record beyond RECORD_OVERHEAD, so that only large records are measured exactly.
_SLACK: Final = 64
_HEADER_OVERHEAD: Final = 16
_LATEST_TIMESTAMP: Final = 253_402_300_799_999
_MOST_PARTITION: Final = 2**31 - 1


class RowHeader(msgspec.Struct, gc=False):
    name: str
    value: bytes | None


class Row(msgspec.Struct, omit_defaults=True, gc=False):
    """A record on the wire; fields that are None are left out."""

    value: bytes | None = None
    key: bytes | None = None
    partition: int | None = None
    timestamp: int | None = None
    headers: list[RowHeader] | None = None


_encode: Final = msgspec.json.Encoder().encode


def encode_rows(rows: list[Row]) -> bytes:
    return _encode({"records": rows})


class RowMaker:
    """Builds rows by a producer's settings."""

    def __init__(
        self,
        key_serializer: str | Callable[..., Any],
        value_serializer: str | Callable[..., Any],
        max_request_size: int,
    ) -> None:
        self._key = serializer_of(key_serializer)
        self._value = serializer_of(value_serializer)
        self._plain_key = self._key is to_bytes
        self._plain_value = self._value is to_bytes
        self._limit = max_request_size
        self._surely_small = max_request_size - _SLACK - RECORD_OVERHEAD

    def make(
        self,
        topic: str,
        value: Any,
        key: Any,
        partition: int | None,
        timestamp: int | None,
        headers: Headers | None,
    ) -> tuple[Row, int]:
        """Build the row; returns it with its size, which counts for batches and memory.

        Raises InvalidRecord if the record can never be stored.
        """
        size = RECORD_OVERHEAD
        if value is not None:
            if not (self._plain_value and type(value) is bytes):
                value = _serialized(topic, "value", self._value, value)
            size += len(value)
        if key is not None:
            if not (self._plain_key and type(key) is bytes):
                key = _serialized(topic, "key", self._key, key)
            size += len(key)
        pairs = None
        if headers is not None:
            pairs = _header_rows(topic, headers)
            size += sum(_HEADER_OVERHEAD + len(pair.name) + len(pair.value or b"") for pair in pairs)
        row = Row(value, key, partition, timestamp, pairs or None)
        if partition is not None or timestamp is not None:
            _check_numbers(topic, partition, timestamp)
        if size > self._surely_small:
            exact = record_size(row)
            if exact > self._limit:
                raise RecordTooLarge(topic, exact, self._limit)
        return row, size


def record_size(row: Row) -> int:
    """Upper bound of the size that Kafka counts for a record alone in its batch."""
    headers = row.headers or []
    size = _BATCH_OVERHEAD + _sized(row.key) + _sized(row.value) + _varint(len(headers))
    return size + sum(_sized(header.name.encode()) + _sized(header.value) for header in headers)


def check_partition(topic: str, partition: object) -> None:
    if type(partition) is not int or not 0 <= partition <= _MOST_PARTITION:
        raise InvalidRecord(topic, f"its partition must be a whole number, 0 or more, not {partition!r}")


def _check_numbers(topic: str, partition: object, timestamp: object) -> None:
    if partition is not None:
        check_partition(topic, partition)
    if timestamp is not None and (type(timestamp) is not int or not 0 <= timestamp <= _LATEST_TIMESTAMP):
        raise InvalidRecord(topic, f"its timestamp must be milliseconds since 1970, not {timestamp!r}")


def _serialized(topic: str, what: str, serialize: Callable[[Any], Any], content: Any) -> bytes:
    try:
        made = serialize(content)
    except Exception as error:
        raise NotSerializable(topic, f"its {what} cannot be made bytes: {error}") from error
    if type(made) is not bytes:
        raise NotSerializable(topic, f"the serializer made its {what} a {type(made).__name__}, not bytes")
    return made


def _header_rows(topic: str, headers: Headers) -> list[RowHeader]:
    rows: list[RowHeader] = []
    pairs: Iterable[Any] = cast("Mapping[Any, Any]", headers).items() if isinstance(headers, Mapping) else headers
    for pair in pairs:
        match pair:
            case (str() as name, bytes() | None as content):
                rows.append(RowHeader(name, content))
            case _:
                raise InvalidRecord(topic, "its headers must be pairs of a text name, and bytes or None")
        try:
            name.encode()
        except UnicodeEncodeError:
            raise InvalidRecord(topic, "a header's name must be text that UTF-8 can hold") from None
    return rows


def _sized(content: bytes | None) -> int:
    return 1 if content is None else _varint(len(content)) + len(content)


def _varint(number: int) -> int:
    return max(1, ((number << 1).bit_length() + 6) // 7)
