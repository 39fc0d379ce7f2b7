"""What a producer sent, checked and split by partition, ready to be given offsets. Pure.

All of the work that needs no offset is done here, by the caller's own thread: when a request waits for its turn at
the journal, its frames' bytes are ready.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, cast

import mmh3
import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from delta_log.arrow_columns import content_bytes, read_columns
from delta_log.errors import InvalidRecord, InvalidTimestamp, RecordTooLarge, UnknownPartition
from delta_log.frames import ARROW, ROWS, checksum
from delta_log.partitioner import assign_array, assign_partitions
from delta_log.producers import check_stamp
from delta_log.rows import CONTENT_SCHEMA, ArrowRows, RowBlock, Rows, content_batch, encode_arrow, encode_block
from delta_log.schema import HEADERS, TIMESTAMP
from delta_log.topic_config import TopicConfig
from delta_log.types import Header, ProducerStamp, Record

LATEST_TIMESTAMP: Final = 253_402_300_799_999
#: From so many records on a request is Arrow as soon as it is checked.
ARROW_FROM: Final = 64
#: Kafka's record-batch overhead and the most that one record's own fields add to it.
_BATCH_OVERHEAD: Final = 61
_RECORD_OVERHEAD: Final = 21
#: What is added at most to the bytes of a record, and for each of its headers.
_RECORD_BOUND: Final = _BATCH_OVERHEAD + _RECORD_OVERHEAD + 15
_HEADER_BOUND: Final = 10
_BYTES_OR_NULL: Final = frozenset((bytes, type(None)))


class Rules(msgspec.Struct, frozen=True):
    """What a topic demands of a record: its configuration, read once."""

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


class Part(msgspec.Struct, gc=False):
    """The records of a request that go to one partition, as rows and as the journal carries them."""

    partition: int
    rows: Rows
    kind: int
    payload: bytes
    crc: int


class Request(msgspec.Struct):
    """One unit of the journal: all of it becomes visible, or nothing. It was assigned among `partitions`."""

    parts: list[Part]
    assignment: Sequence[int]
    count: int
    size: int
    timestamp_ms: int
    partitions: int
    nulls: int = 0
    stamp: ProducerStamp | None = None
    digest: bytes = b""
    reassign: Callable[[int], Sequence[int]] | None = None


def prepare_records(
    rules: Rules,
    records: Sequence[Record],
    *,
    first_null: int,
    now_ms: int,
    stamp: ProducerStamp | None = None,
) -> Request:
    """Check records and split them. The first record that breaks a rule refuses all; nothing is stored then."""
    if not records:
        raise InvalidRecord(0, "a request needs at least one record")
    if stamp is not None:
        check_stamp(stamp, len(records))
    keys = [record.key for record in records]
    values = [record.value for record in records]
    if not (set(map(type, keys)) <= _BYTES_OR_NULL and set(map(type, values)) <= _BYTES_OR_NULL):
        _refuse_types(keys, values)
    if rules.keys_required and None in keys:
        raise InvalidRecord(keys.index(None), f"{rules.topic} is compacted: a record needs a key")
    timestamps = _check_timestamps(rules, [record.timestamp for record in records], now_ms)
    headers = _check_headers([record.headers for record in records])
    explicit = _explicit([record.partition for record in records])
    block = RowBlock(keys, values, timestamps, headers, None if stamp is None else stamp.sequence)

    def assign(partitions: int) -> tuple[list[int], int]:
        first = first_null if stamp is None else stamp.sequence
        return assign_partitions(rules.partitioner, keys, partitions, first, rules.null_mode, explicit)

    assignment, nulls = assign(rules.partitions)
    if explicit is not None:
        _check_partitions(rules, explicit)
    parts = _block_parts(block, assignment, rules.partitions, stamp)
    size = sum(len(part.payload) for part in parts)
    if _largest(size, headers) > rules.max_bytes:
        _check_sizes(rules.max_bytes, keys, values, headers)
    request = Request(parts, assignment, len(records), size, now_ms, rules.partitions, nulls)
    if stamp is not None:
        request.stamp, request.reassign = stamp, lambda partitions: assign(partitions)[0]
        request.digest = _digest(encode_block(RowBlock(keys, values, _given_times(records), headers)), explicit)
    return request


def prepare_arrow(
    rules: Rules, table: pa.Table, *, first_null: int, now_ms: int, stamp: ProducerStamp | None = None
) -> Request:
    """The same for columns key and value, and optionally partition, timestamp and headers."""
    if table.num_rows == 0:
        raise InvalidRecord(0, "a request needs at least one record")
    if stamp is not None:
        check_stamp(stamp, table.num_rows)
    columns = read_columns(table)
    keys = columns.get("key", pa.nulls(table.num_rows, pa.binary()))
    if rules.keys_required and keys.null_count:
        raise InvalidRecord(pc.index(keys.is_null(), True).as_py(), f"{rules.topic} is compacted: a record needs a key")
    content = pa.RecordBatch.from_arrays(
        [
            _arrow_timestamps(rules, columns.get("timestamp"), table.num_rows, now_ms),
            keys,
            columns["value"],
            columns.get("headers", pa.nulls(table.num_rows, HEADERS)),
        ],
        schema=CONTENT_SCHEMA,
    )
    _check_arrow_sizes(rules.max_bytes, content)
    explicit = _explicit(columns["partition"].to_pylist()) if "partition" in columns else None
    first = first_null if stamp is None else stamp.sequence

    def assign(partitions: int) -> tuple[list[int], int]:
        return assign_array(rules.partitioner, keys, partitions, first, rules.null_mode, explicit)

    assignment, nulls = assign(rules.partitions)
    if explicit is not None:
        _check_partitions(rules, explicit)
    parts = _arrow_parts(content, assignment, rules.partitions, stamp)
    size = sum(len(part.payload) for part in parts)
    request = Request(parts, assignment, table.num_rows, size, now_ms, rules.partitions, nulls)
    if stamp is not None:
        request.stamp, request.reassign = stamp, lambda partitions: assign(partitions)[0]
        request.digest = _digest(content_bytes(columns), None)
    return request


def _refuse_types(keys: Sequence[object], values: Sequence[object]) -> None:
    for index, (key, value) in enumerate(zip(keys, values, strict=True)):
        for name, content in (("key", key), ("value", value)):
            if type(content) not in _BYTES_OR_NULL:
                raise InvalidRecord(index, f"its {name} must be bytes or null, not {type(content).__name__}")


def _explicit(partitions: list[int | None]) -> list[int | None] | None:
    return None if partitions.count(None) == len(partitions) else partitions


def _check_partitions(rules: Rules, explicit: Sequence[int | None]) -> None:
    for index, partition in enumerate(explicit):
        if partition is None:
            continue
        if type(partition) is not int:
            raise InvalidRecord(index, f"partition must be a whole number, not {partition!r}")
        if not 0 <= partition < rules.partitions:
            raise UnknownPartition(rules.topic, partition, rules.partitions)


def _block_parts(
    block: RowBlock, assignment: Sequence[int], partitions: int, stamp: ProducerStamp | None
) -> list[Part]:
    """A few records stay rows; many become Arrow at once, here, where the other threads need not wait for it."""
    if len(block) >= ARROW_FROM:
        return _arrow_parts(content_batch([block]), assignment, partitions, stamp)
    try:
        return [_block_part(partition, rows) for partition, rows in _split(block, assignment)]
    except OverflowError as error:
        raise InvalidRecord(0, str(error)) from error


def _split(block: RowBlock, assignment: Sequence[int]) -> list[tuple[int, RowBlock]]:
    """One dense block for each partition that is touched, each in the request's order."""
    first = assignment[0]
    if len(assignment) == 1 or assignment.count(first) == len(assignment):
        return [(first, block)]
    places: dict[int, list[int]] = {}
    for index, partition in enumerate(assignment):
        places.setdefault(partition, []).append(index)
    return [(partition, _gather(block, places[partition])) for partition in sorted(places)]


def _gather(block: RowBlock, indexes: list[int]) -> RowBlock:
    first = block.sequences
    return RowBlock(
        [block.keys[index] for index in indexes],
        [block.values[index] for index in indexes],
        block.timestamps if isinstance(block.timestamps, int) else [block.timestamps[index] for index in indexes],
        None if block.headers is None else [block.headers[index] for index in indexes],
        [first + index for index in indexes] if isinstance(first, int) else None,
    )


def _block_part(partition: int, rows: RowBlock) -> Part:
    payload = encode_block(rows)
    return Part(partition, rows, ROWS, payload, checksum(payload))


def _arrow_parts(
    content: pa.RecordBatch, assignment: Sequence[int], partitions: int, stamp: ProducerStamp | None
) -> list[Part]:
    return [_arrow_part(partition, rows) for partition, rows in _split_arrow(content, assignment, partitions, stamp)]


def _split_arrow(
    content: pa.RecordBatch, assignment: Sequence[int], partitions: int, stamp: ProducerStamp | None
) -> list[tuple[int, ArrowRows]]:
    """The same for Arrow: one stable sort by partition, then a slice for each."""
    sequence = None if stamp is None else stamp.sequence
    first = assignment[0]
    if partitions == 1 or assignment.count(first) == len(assignment):
        return [(first, ArrowRows(content, sequence))]
    places = pa.array(assignment, pa.int32())
    order = pc.array_sort_indices(places)
    ordered = content.take(order)
    counts = sorted((item["values"], item["counts"]) for item in pc.value_counts(places).to_pylist())
    result: list[tuple[int, ArrowRows]] = []
    start = 0
    for partition, count in counts:
        sequences = (
            None if sequence is None else pc.add(order.slice(start, count).cast(pa.int64()), sequence).to_pylist()
        )
        result.append((partition, ArrowRows(ordered.slice(start, count), sequences)))
        start += count
    return result


def _arrow_part(partition: int, rows: ArrowRows) -> Part:
    payload = encode_arrow(rows)
    return Part(partition, rows, ARROW, payload, checksum(payload))


def _check_timestamps(rules: Rules, given: list[int | None], now_ms: int) -> int | list[int]:
    if given.count(None) == len(given):
        return now_ms
    low, high = _time_bounds(rules, now_ms)
    for index, timestamp in enumerate(given):
        if timestamp is None:
            continue
        if type(timestamp) is not int:
            raise InvalidRecord(index, f"timestamp must be whole milliseconds, not {timestamp!r}")
        if not low <= timestamp <= high:
            raise InvalidTimestamp(index, timestamp, f"it must lie within {low} and {high}")
    if rules.append_time:
        return now_ms
    return [now_ms if timestamp is None else timestamp for timestamp in given]


def _time_bounds(rules: Rules, now_ms: int) -> tuple[int, int]:
    if rules.append_time:
        return 0, LATEST_TIMESTAMP
    return max(0, now_ms - rules.before_ms), min(LATEST_TIMESTAMP, now_ms + rules.after_ms)


def _given_times(records: Sequence[Record]) -> int | list[int]:
    return [-1 if record.timestamp is None else record.timestamp for record in records]


def _check_headers(column: list[tuple[Header, ...] | None]) -> list[tuple[Header, ...] | None] | None:
    if not any(column):
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


def _largest(size: int, headers: Sequence[tuple[Header, ...] | None] | None) -> int:
    """What no record of a request of `size` bytes can exceed."""
    most = max((len(given) for given in headers if given), default=0) if headers else 0
    return size + _RECORD_BOUND + _HEADER_BOUND * most


def _check_sizes(
    limit: int,
    keys: Sequence[bytes | None],
    values: Sequence[bytes | None],
    headers: Sequence[tuple[Header, ...] | None] | None,
) -> None:
    if headers is None:
        longest = max(len(key or b"") for key in keys) + max(len(value or b"") for value in values)
        if longest + _RECORD_BOUND <= limit:
            return
    for index, (key, value) in enumerate(zip(keys, values, strict=True)):
        size = record_size(key, value, headers[index] if headers else None)
        if size > limit:
            raise RecordTooLarge(index, size, limit)


def record_size(key: bytes | None, value: bytes | None, headers: Sequence[Header] | None) -> int:
    """What Kafka would count for a record alone in its batch, at most."""
    size = _BATCH_OVERHEAD + _RECORD_OVERHEAD + _sized(key) + _sized(value) + _varint(len(headers or ()))
    return size + sum(_sized(name.encode()) + _sized(content) for name, content in headers or ())


def _sized(content: bytes | None) -> int:
    return 1 if content is None else _varint(len(content)) + len(content)


def _varint(number: int) -> int:
    return max(1, ((number << 1).bit_length() + 6) // 7)


def _check_arrow_sizes(limit: int, content: pa.RecordBatch) -> None:
    """Only what could be too large is counted exactly: few records, or none."""
    if content.nbytes + _RECORD_BOUND + _HEADER_BOUND * len(content.column("headers").flatten()) <= limit:
        return
    lengths = [pc.fill_null(pc.binary_length(content.column(name)), 0).cast(pa.int64()) for name in ("key", "value")]
    doubtful = pc.greater(pc.add(lengths[0], lengths[1]), limit - _RECORD_BOUND)
    if content.column("headers").null_count < content.num_rows:
        doubtful = pc.or_(doubtful, content.column("headers").is_valid())
    for index in pc.indices_nonzero(doubtful).to_pylist():
        headers = [(item["key"], item["value"]) for item in content.column("headers")[index].as_py() or ()]
        size = record_size(content.column("key")[index].as_py(), content.column("value")[index].as_py(), headers)
        if size > limit:
            raise RecordTooLarge(index, size, limit)


def _arrow_timestamps(rules: Rules, given: pa.Array | None, count: int, now_ms: int) -> pa.Array:
    now = pa.scalar(now_ms * 1000, TIMESTAMP)
    if given is None or given.null_count == count:
        return pa.repeat(now, count)
    low, high = _time_bounds(rules, now_ms)
    micros = given.cast(pa.int64())
    bad = pc.or_(pc.less(micros, low * 1000), pc.greater(micros, high * 1000 + 999))
    at = pc.index(bad, True).as_py()
    if at >= 0:
        raise InvalidTimestamp(at, micros[at].as_py() // 1000, f"it must lie within {low} and {high}")
    return pa.repeat(now, count) if rules.append_time else pc.fill_null(given, now)


def _digest(content: bytes, explicit: Sequence[int | None] | None) -> bytes:
    """What tells a repeat from other content under the same sequence."""
    places = b"" if explicit is None else msgspec.msgpack.encode(explicit)
    return mmh3.hash_bytes(content + places)
