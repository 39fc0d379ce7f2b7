"""Fast path for the most common request, one plain record. Pure.

It must produce the same request as the general path, which gets every record that is not plain or breaks a rule.
"""

from __future__ import annotations

from delta_log.model.partitioner import assign_partitions
from delta_log.model.types import ProducerStamp, Record
from delta_log.records.idempotence import check_stamp
from delta_log.records.payload_kinds import ROWS
from delta_log.records.request import Part, Request, content_digest
from delta_log.records.row_codec import RowBlock, encode_block
from delta_log.records.validation import RECORD_BOUND, Rules


def prepare_plain_record(
    rules: Rules, record: Record, *, first_null: int, now_ms: int, stamp: ProducerStamp | None = None
) -> Request | None:
    """The request for a record with only a key and a value; None for any other record."""
    if not _is_plain(rules, record):
        return None
    key, value, sequence = record.key, record.value, None
    if stamp is not None:
        check_stamp(stamp, 1)
        first_null = sequence = stamp.sequence
    place = _place_of(rules, key, rules.partitions, first_null)
    rows = RowBlock([key], [value], now_ms, None, sequence)
    payload = encode_block(rows)
    part = Part(place, rows, ROWS, payload)
    nulls = 1 if key is None else 0
    request = Request([part], (place,), 1, len(payload), now_ms, rules.partitions, nulls)
    if stamp is not None:
        request.stamp = stamp
        request.digest = content_digest(encode_block(RowBlock([key], [value], [-1])), None)
        request.reassign = lambda partitions: (_place_of(rules, key, partitions, first_null),)
    return request


def _is_plain(rules: Rules, record: Record) -> bool:
    key, value = record.key, record.value
    if record.timestamp is not None or record.headers is not None or record.partition is not None:
        return False
    size = RECORD_BOUND
    if key is None:
        if rules.keys_required:
            return False
    elif type(key) is bytes:
        size += len(key)
    else:
        return False
    if type(value) is bytes:
        size += len(value)
    elif value is not None:
        return False
    return size <= rules.max_bytes


def _place_of(rules: Rules, key: bytes | None, partitions: int, first_null: int) -> int:
    if key is None:
        return first_null % partitions
    if partitions == 1:
        return 0
    return assign_partitions(rules.partitioner, (key,), partitions, first_null, rules.null_mode, None)[0][0]
