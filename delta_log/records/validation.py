"""Validates records against a topic's rules, and reports the first of a request that breaks one. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, cast

import msgspec

from delta_log.model.errors import InvalidRecord, InvalidTimestamp, RecordTooLarge, UnknownPartition
from delta_log.model.quoting import quoted
from delta_log.model.topic_config import TopicConfig
from delta_log.model.topic_settings import INT64_MAX
from delta_log.model.types import Header

LATEST_TIMESTAMP: Final = 253_402_300_799_999
#: Kafka's record-batch overhead, and the maximum that a record's own fields add to it.
_BATCH_OVERHEAD: Final = 61
_RECORD_OVERHEAD: Final = 21
#: Maximum overhead of a record beside its bytes, and of each of its headers.
RECORD_BOUND: Final = _BATCH_OVERHEAD + _RECORD_OVERHEAD + 15
HEADER_BOUND: Final = 10
BYTES_OR_NULL: Final = frozenset((bytes, type(None)))


class Rules(msgspec.Struct, frozen=True):
    """A topic's rules for records, read once from its configuration."""

    topic: str
    partitions: int
    partitioner: str
    null_mode: str
    max_bytes: int
    append_time: bool
    before_ms: int
    after_ms: int
    keys_required: bool

    @classmethod
    def of(cls, topic: str, partitions: int, config: TopicConfig) -> Rules:
        return cls(
            topic,
            partitions,
            config.partitioner,
            config.partitioner_null,
            config.max_message_bytes,
            config.message_timestamp_type == "LogAppendTime",
            config.message_timestamp_before_max_ms,
            config.message_timestamp_after_max_ms,
            config.compacts,
        )

    def relaxed(self) -> Rules:
        """The rules without those whose verdict a configuration change, or time alone, may reverse."""
        return msgspec.structs.replace(
            self, max_bytes=INT64_MAX, before_ms=INT64_MAX, after_ms=INT64_MAX, keys_required=False
        )


def refuse_types(keys: Sequence[object], values: Sequence[object]) -> None:
    for index, (key, value) in enumerate(zip(keys, values, strict=True)):
        for name, content in (("key", key), ("value", value)):
            if type(content) not in BYTES_OR_NULL:
                raise InvalidRecord(index, f"its {name} must be bytes or null, not {type(content).__name__}")


def explicit_partitions(partitions: list[int | None] | None) -> list[int | None] | None:
    return None if partitions is None or partitions.count(None) == len(partitions) else partitions


def check_partitions(rules: Rules, explicit: Sequence[int | None]) -> None:
    for index, partition in enumerate(explicit):
        if partition is None:
            continue
        if type(partition) is not int:
            raise InvalidRecord(index, f"partition must be a whole number, not {quoted(partition)}")
        if not 0 <= partition < rules.partitions:
            raise UnknownPartition(rules.topic, partition, rules.partitions)


def check_timestamps(rules: Rules, given: list[int | None] | None, now_ms: int) -> int | list[int]:
    if given is None or given.count(None) == len(given):
        return now_ms
    low, high = time_bounds(rules, now_ms)
    for index, timestamp in enumerate(given):
        if timestamp is None:
            continue
        if type(timestamp) is not int:
            raise InvalidRecord(index, f"timestamp must be whole milliseconds, not {quoted(timestamp)}")
        if not low <= timestamp <= high:
            raise InvalidTimestamp(index, timestamp, f"it must lie within {low} and {high}")
    if rules.append_time:
        return now_ms
    return [now_ms if timestamp is None else timestamp for timestamp in given]


def time_bounds(rules: Rules, now_ms: int) -> tuple[int, int]:
    if rules.append_time:
        return 0, LATEST_TIMESTAMP
    return max(0, now_ms - rules.before_ms), min(LATEST_TIMESTAMP, now_ms + rules.after_ms)


def check_headers(column: list[tuple[Header, ...] | None] | None) -> list[tuple[Header, ...] | None] | None:
    if column is None or not any(column):
        return None
    for index, headers in enumerate(column):
        if headers is not None:
            _check_pairs(index, headers)
    return column


def _check_pairs(index: int, headers: object) -> None:
    if not isinstance(headers, tuple | list):
        raise InvalidRecord(index, "headers are pairs: a text name, and bytes or null")
    for header in cast("Sequence[object]", headers):
        match header:
            case (str() as name, bytes() | None):
                pass
            case _:
                raise InvalidRecord(index, "a header is a text name and bytes or null")
        try:
            name.encode()
        except UnicodeEncodeError:
            raise InvalidRecord(index, "a header's name must be text that UTF-8 can hold") from None


def largest_record(size: int, headers: Sequence[tuple[Header, ...] | None] | None) -> int:
    """Upper bound on the size of any record in a request of `size` bytes."""
    most = max((len(given) for given in headers if given), default=0) if headers else 0
    return size + RECORD_BOUND + HEADER_BOUND * most


def check_sizes(
    limit: int,
    keys: Sequence[bytes | None],
    values: Sequence[bytes | None],
    headers: Sequence[tuple[Header, ...] | None] | None,
) -> None:
    if headers is None:
        longest = max(len(key or b"") for key in keys) + max(len(value or b"") for value in values)
        if longest + RECORD_BOUND <= limit:
            return
    for index, (key, value) in enumerate(zip(keys, values, strict=True)):
        size = record_size(key, value, headers[index] if headers else None)
        if size > limit:
            raise RecordTooLarge(index, size, limit)


def record_size(key: bytes | None, value: bytes | None, headers: Sequence[Header] | None) -> int:
    """Maximum size that Kafka would count for a record alone in its batch."""
    size = _BATCH_OVERHEAD + _RECORD_OVERHEAD + _sized(key) + _sized(value) + _varint(len(headers or ()))
    return size + sum(_sized(name.encode()) + _sized(content) for name, content in headers or ())


def _sized(content: bytes | None) -> int:
    return 1 if content is None else _varint(len(content)) + len(content)


def _varint(number: int) -> int:
    return max(1, ((number << 1).bit_length() + 6) // 7)
