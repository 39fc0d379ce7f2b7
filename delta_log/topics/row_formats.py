"""The row format of keyed tables: how rows are written to a table and loaded from it.

Of pending rows only the latest of each key is written, so a key that changes a thousand times a second costs the table
one row. Tombstones are written, because the row that they delete may be in the table.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa

from delta_log.delta.parquet import read_file
from delta_log.model.errors import Corruption
from delta_log.records.keyed_table import COMMIT_SEQ, LedgerTable, Placed, Row, RowCodec
from delta_log.topics.partition_state import Chunk, PayloadReader, payload_of
from delta_log.topics.topic_state import TopicState


class LedgerRows:
    """Row format of a keyed table: the latest row of each key counts."""

    order = COMMIT_SEQ
    keep_in_memory = False
    partitioned = False

    def __init__(self, table: LedgerTable) -> None:
        self.table = table
        self.schema = table.schema
        self.codec = RowCodec(table)

    def batches(self, chunks: Sequence[Chunk], journal: PayloadReader) -> list[pa.RecordBatch]:
        kept = self.codec.latest(self._placed(chunks, journal))
        return [self.codec.to_batch(kept)] if kept else []

    def load(self, live: TopicState, journal: PayloadReader) -> list[Row]:
        """The latest row of each key, in order, without tombstones: from the table and from pending journal frames.

        `committing` is held while both are read, so that no row moves from one to the other.
        """
        tail = live.tails[0]
        with live.committing:
            stored = [self._read(live, file.path) for file in live.table.snapshot.files(-1)]
            waiting = list(
                self._placed(tail.chunks_from(tail.table_offset, tail.high_watermark - tail.table_offset), journal)
            )
        rows = self.codec.from_table(self.codec.surviving(pa.concat_tables(stored), whole=True)) if stored else []
        return [row for _, row in self.codec.latest(rows + waiting) if not self.codec.is_tombstone(row)]

    def _placed(self, chunks: Sequence[Chunk], journal: PayloadReader) -> Iterator[Placed]:
        for chunk in chunks:
            if not chunk.lost:
                yield from enumerate(self.codec.decode(payload_of(chunk, journal)), chunk.base_offset)

    def _read(self, live: TopicState, path: str) -> pa.Table:
        try:
            return read_file(live.table.store, live.table.path(path), self.schema)
        except FileNotFoundError as error:
            raise Corruption(live.table.path(path), "it is missing") from error
