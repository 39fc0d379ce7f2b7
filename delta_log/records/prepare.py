"""Prepares a request: checks its records and splits them by partition, ready for sequencing. Pure.

All work that needs no offset is done here, in the caller's own thread: the bytes of the frames are ready before the
request enters the commit queue.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from delta_log.model.errors import InvalidRecord, InvalidTimestamp, RecordTooLarge
from delta_log.model.murmur2 import Numbers
from delta_log.model.partitioner import assign_array, assign_partitions
from delta_log.model.schema import HEADERS, TIMESTAMP, integer
from delta_log.model.types import ProducerStamp, Record
from delta_log.records.arrow_columns import content_bytes, read_columns
from delta_log.records.idempotence import check_stamp
from delta_log.records.record_columns import Contents, RecordColumns
from delta_log.records.request import Request, arrow_parts, block_parts, content_digest
from delta_log.records.row_codec import CONTENT_SCHEMA, RowBlock, encode_block
from delta_log.records.validation import (
    BYTES_OR_NULL,
    HEADER_BOUND,
    RECORD_BOUND,
    Rules,
    check_headers,
    check_partitions,
    check_sizes,
    check_timestamps,
    explicit_partitions,
    largest_record,
    record_size,
    refuse_types,
    time_bounds,
)

#: Fewer Arrow records than this are cheaper as rows: each call to Arrow has a cost, and small requests share a frame.
_FEW: Final = 500
#: Only with these columns; timestamps have microseconds in Arrow alone.
_AS_ROWS: Final = frozenset(("key", "value", "partition"))


def prepare_records(
    rules: Rules,
    records: Sequence[Record],
    *,
    first_null: int,
    now_ms: int,
    stamp: ProducerStamp | None = None,
) -> Request:
    """Check records and split them. The first record that breaks a rule fails the whole request."""
    if not records:
        raise InvalidRecord(0, "a request needs at least one record")
    if stamp is not None:
        check_stamp(stamp, len(records))
    given = RecordColumns.of(records)
    values = given.values
    keys: Contents = [None] * len(values) if given.keys is None else given.keys
    if not (set(map(type, keys)) <= BYTES_OR_NULL and set(map(type, values)) <= BYTES_OR_NULL):
        refuse_types(keys, values)
    if rules.keys_required and None in keys:
        raise InvalidRecord(keys.index(None), f"{rules.topic} is compacted: a record needs a key")
    timestamps = check_timestamps(rules, given.timestamps, now_ms)
    headers = check_headers(given.headers)
    explicit = explicit_partitions(given.partitions)
    block = RowBlock(keys, values, timestamps, headers, None if stamp is None else stamp.sequence)

    def assign(partitions: int) -> tuple[list[int], int]:
        first = first_null if stamp is None else stamp.sequence
        return assign_partitions(rules.partitioner, keys, partitions, first, rules.null_mode, explicit)

    assignment, nulls = assign(rules.partitions)
    if explicit is not None:
        check_partitions(rules, explicit)
    parts = block_parts(block, assignment, rules.partitions)
    size = sum(len(part.payload) for part in parts)
    if largest_record(size, headers) > rules.max_bytes:
        check_sizes(rules.max_bytes, keys, values, headers)
    request = Request(parts, assignment, len(records), size, now_ms, rules.partitions, nulls)
    if stamp is not None:
        request.stamp, request.reassign = stamp, lambda partitions: assign(partitions)[0]
        request.digest = content_digest(encode_block(RowBlock(keys, values, _given_times(given), headers)), explicit)
    return request


def prepare_arrow(
    rules: Rules, table: pa.Table, *, first_null: int, now_ms: int, stamp: ProducerStamp | None = None
) -> Request:
    """Like `prepare_records`, for Arrow columns value, and optionally key, partition, timestamp and headers."""
    if table.num_rows == 0:
        raise InvalidRecord(0, "a request needs at least one record")
    if stamp is not None:
        check_stamp(stamp, table.num_rows)
    columns = read_columns(table)
    if table.num_rows < _FEW and _AS_ROWS.issuperset(columns):
        return prepare_records(rules, _as_rows(columns), first_null=first_null, now_ms=now_ms, stamp=stamp)
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
    explicit = explicit_partitions(columns["partition"].to_pylist()) if "partition" in columns else None
    first = first_null if stamp is None else stamp.sequence

    def assign(partitions: int) -> tuple[Numbers, int]:
        return assign_array(rules.partitioner, keys, partitions, first, rules.null_mode, explicit)

    assignment, nulls = assign(rules.partitions)
    if explicit is not None:
        check_partitions(rules, explicit)
    parts = arrow_parts(content, assignment, rules.partitions, stamp)
    size = sum(len(part.payload) for part in parts)
    request = Request(parts, assignment.tolist(), table.num_rows, size, now_ms, rules.partitions, nulls)
    if stamp is not None:
        request.stamp, request.reassign = stamp, lambda partitions: assign(partitions)[0].tolist()
        request.digest = content_digest(content_bytes(columns), None)
    return request


def _as_rows(columns: Mapping[str, pa.Array]) -> RecordColumns:
    key, partition = columns.get("key"), columns.get("partition")
    return RecordColumns(
        columns["value"].to_numpy(zero_copy_only=False).tolist(),
        None if key is None else key.to_numpy(zero_copy_only=False).tolist(),
        partitions=None if partition is None else partition.to_pylist(),
    )


def _given_times(given: RecordColumns) -> list[int]:
    if given.timestamps is None:
        return [-1] * len(given)
    return [-1 if timestamp is None else timestamp for timestamp in given.timestamps]


def _check_arrow_sizes(limit: int, content: pa.RecordBatch) -> None:
    """Check sizes; only records that could be too large are counted exactly: few or none."""
    if content.nbytes + RECORD_BOUND + HEADER_BOUND * len(content.column("headers").flatten()) <= limit:
        return
    columns = [content.column(name) for name in ("key", "value")]
    if not len(content.column("headers").flatten()) and sum(map(_longest, columns)) + RECORD_BOUND <= limit:
        return
    lengths = [pc.fill_null(pc.binary_length(column), 0).cast(pa.int64()) for column in columns]
    doubtful = pc.greater(pc.add(lengths[0], lengths[1]), integer(limit - RECORD_BOUND))
    if content.column("headers").null_count < content.num_rows:
        doubtful = pc.or_(doubtful, content.column("headers").is_valid())
    for index in pc.indices_nonzero(doubtful).to_pylist():
        headers = [(item["key"], item["value"]) for item in content.column("headers")[index].as_py() or ()]
        size = record_size(content.column("key")[index].as_py(), content.column("value")[index].as_py(), headers)
        if size > limit:
            raise RecordTooLarge(index, size, limit)


def _longest(column: pa.Array) -> int:
    return pc.max(pc.binary_length(column)).as_py() or 0


def _arrow_timestamps(rules: Rules, given: pa.Array | None, count: int, now_ms: int) -> pa.Array:
    now = pa.scalar(now_ms * 1000, TIMESTAMP)
    if given is None or given.null_count == count:
        return pa.repeat(now, count)
    low, high = time_bounds(rules, now_ms)
    micros = given.cast(pa.int64())
    bad = pc.or_(pc.less(micros, integer(low * 1000)), pc.greater(micros, integer(high * 1000 + 999)))
    at = pc.index(bad, True).as_py()
    if at >= 0:
        raise InvalidTimestamp(at, micros[at].as_py() // 1000, f"it must lie within {low} and {high}")
    return pa.repeat(now, count) if rules.append_time else pc.fill_null(given, now)
