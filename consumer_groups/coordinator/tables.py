"""Tables of the groups in the ledger: a record is a row, a deleted record a row without content.

    __consumer_offsets   the committed offsets, a column for each field, readable by any client
    __consumer_groups    all else: group, type and key, with the record itself as JSON

It knows records and rows. It must not know when they are stored, or what they mean.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import msgspec
import pyarrow as pa

from consumer_groups.model.records import (
    GROUPS_TABLE,
    OFFSETS_TABLE,
    Gone,
    OffsetRecord,
    Record,
    decode_record,
    encode_record,
    table_of,
)
from delta_log import LedgerTable
from delta_log.keyed import Row
from delta_log.model.errors import Corruption
from delta_log.model.schema import TIMESTAMP

GROUPS: Final = LedgerTable(
    GROUPS_TABLE,
    pa.schema(
        [
            ("group", pa.string()),
            ("type", pa.string()),
            ("key", pa.string()),
            ("content", pa.string()),
            ("commit_seq", pa.int64()),
        ]
    ),
    ("group", "type", "key"),
    ("content",),
)
OFFSETS: Final = LedgerTable(
    OFFSETS_TABLE,
    pa.schema(
        [
            ("group", pa.string()),
            ("topic", pa.string()),
            ("topic_id", pa.string()),
            ("partition", pa.int32()),
            ("offset", pa.int64()),
            ("metadata", pa.string()),
            ("generation", pa.int64()),
            ("committed_at", TIMESTAMP),
            ("commit_seq", pa.int64()),
        ]
    ),
    ("group", "topic_id", "partition"),
    ("offset", "metadata", "generation", "committed_at"),
)
TABLES: Final = (GROUPS, OFFSETS)


def row_of(record: Record) -> tuple[str, Row]:
    """Table and row of a record."""
    kind, group, *rest = record.key
    if isinstance(record, OffsetRecord):
        said = (record.next_offset, record.metadata, record.generation, record.committed_at_ms)
        return OFFSETS_TABLE, (group, record.topic, record.topic_id, record.partition, *said)
    if table_of(record) == OFFSETS_TABLE:
        topic_id, partition = rest
        return OFFSETS_TABLE, (group, None, topic_id, partition, None, None, None, None)
    content = None if isinstance(record, Gone) else encode_record(record).decode()
    return GROUPS_TABLE, (group, kind, "/".join(map(str, rest)), content)


def records_of_groups(rows: Iterable[Row]) -> list[Record]:
    try:
        return [decode_record(content.encode()) for *_, content in rows]
    except msgspec.DecodeError as error:
        raise Corruption(GROUPS_TABLE, f"a record cannot be read: {error}") from error


def records_of_offsets(rows: Sequence[Row]) -> list[Record]:
    return [
        OffsetRecord(
            group=group,
            topic=topic,
            topic_id=topic_id,
            partition=partition,
            next_offset=next_offset,
            metadata=metadata,
            generation=generation,
            committed_at_ms=committed_at_ms,
        )
        for group, topic, topic_id, partition, next_offset, metadata, generation, committed_at_ms in rows
    ]
