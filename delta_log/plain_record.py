"""The commonest request, one plain record, by the shortest way. Pure.

It must come to the same request as the way for all: whatever is not plain, or breaks a rule, is left to that one.
"""

from __future__ import annotations

from delta_log.frames import ROWS
from delta_log.partitioner import assign_partitions
from delta_log.record_rules import RECORD_BOUND, Rules
from delta_log.request_parts import Part, Request
from delta_log.rows import RowBlock, encode_block
from delta_log.types import Record


def prepare_plain_record(rules: Rules, record: Record, *, first_null: int, now_ms: int) -> Request | None:
    """The request of a record with nothing but a key and a value; None where it is anything else."""
    key, value = record.key, record.value
    if record.timestamp is not None or record.headers is not None or record.partition is not None:
        return None
    size = RECORD_BOUND
    if key is None:
        if rules.keys_required:
            return None
    elif type(key) is bytes:
        size += len(key)
    else:
        return None
    if type(value) is bytes:
        size += len(value)
    elif value is not None:
        return None
    if size > rules.max_bytes:
        return None
    nulls = 0
    if key is None:
        place, nulls = first_null % rules.partitions, 1
    elif rules.partitions == 1:
        place = 0
    else:
        place = assign_partitions(rules.partitioner, (key,), rules.partitions, first_null, rules.null_mode, None)[0][0]
    rows = RowBlock([key], [value], now_ms)
    payload = encode_block(rows)
    part = Part(place, rows, ROWS, payload)
    return Request([part], (place,), 1, len(payload), now_ms, rules.partitions, nulls)
