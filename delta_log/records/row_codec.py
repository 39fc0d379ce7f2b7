"""Records in columns: in the encoding of a journal frame, and as Arrow.

A `RowBlock` is a dense run of records of one partition. Small requests stay in this form until their table is
written; large ones may be Arrow from the start (`ArrowRows`). Both have a length and can be converted to Arrow.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, chain
from typing import Final

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from delta_log.model.murmur2 import Numbers
from delta_log.model.schema import FILE_SCHEMA, HEADER, HEADERS, TIMESTAMP, integer
from delta_log.model.types import Header, ProducerStamp
from delta_log.records.sequences import Sequences, join_sequences

#: The columns of a frame in Arrow: offsets are derived from its base, the producer from its stamp.
CONTENT_SCHEMA: Final = pa.schema([FILE_SCHEMA.field(name) for name in ("timestamp", "key", "value", "headers")])


class RowBlock(msgspec.Struct, array_like=True, gc=False):
    """Columns of a run of records.

    `timestamps` is one number when all are the same; `headers` None when none has any; `sequences` None for a plain
    producer.
    """

    keys: list[bytes | None]
    values: list[bytes | None]
    timestamps: int | list[int]
    headers: list[tuple[Header, ...] | None] | None = None
    sequences: Sequences = None

    def __len__(self) -> int:
        return len(self.values)


class Sender(msgspec.Struct, array_like=True, gc=False, frozen=True):
    """The producer of `count` rows in a merged block: None and 0 for a plain one. `sequences` as in a block."""

    count: int
    producer_id: str | None = None
    epoch: int = 0
    sequences: Sequences = None


class CrowdBlock(RowBlock):
    """Rows of several requests, some with sequences: `senders` names their producers; None if none has any."""

    senders: list[Sender] | None = None


class ArrowRows(msgspec.Struct, gc=False):
    """A run of records in Arrow; `batch` has CONTENT_SCHEMA."""

    batch: pa.RecordBatch
    sequences: Sequences = None

    def __len__(self) -> int:
        return self.batch.num_rows


Rows = RowBlock | ArrowRows

_encoder: Final = msgspec.msgpack.Encoder()
_decoder: Final = msgspec.msgpack.Decoder(CrowdBlock)
_sequences_decoder: Final = msgspec.msgpack.Decoder(Sequences)


def merge_blocks(blocks: Sequence[RowBlock], stamps: Sequence[ProducerStamp | None] = ()) -> RowBlock:
    """Concatenate blocks; of plain producers, or of those in `stamps`."""
    if len(blocks) == 1 and not stamps:
        return blocks[0]
    first = blocks[0].timestamps
    same = isinstance(first, int) and all(block.timestamps == first for block in blocks)
    merged = (
        _joined([block.keys for block in blocks]),
        _joined([block.values for block in blocks]),
        first if same else list(chain.from_iterable(map(_spread_times, blocks))),
        None if all(block.headers is None for block in blocks) else _spread_headers(blocks),
    )
    if not any(stamps):
        return RowBlock(*merged)
    return CrowdBlock(*merged, None, [_sender(block, stamp) for block, stamp in zip(blocks, stamps, strict=True)])


def _sender(rows: Rows, stamp: ProducerStamp | None) -> Sender:
    if stamp is None:
        return Sender(len(rows))
    return Sender(len(rows), stamp.producer_id, stamp.epoch, rows.sequences)


def encode_block(block: RowBlock) -> bytes:
    return _encoder.encode(block)


def decode_block(payload: bytes | memoryview) -> RowBlock:
    return _decoder.decode(payload)


def encode_arrow(rows: ArrowRows) -> bytes:
    """Encode the sequences, followed by the batch's IPC message."""
    head = _encoder.encode(rows.sequences)
    return b"".join((len(head).to_bytes(4, "little"), head, rows.batch.serialize()))


def decode_arrow(payload: bytes | memoryview) -> ArrowRows:
    view = memoryview(payload)
    start = 4 + int.from_bytes(view[:4], "little")
    batch = pa.ipc.read_record_batch(pa.py_buffer(view[start:]), CONTENT_SCHEMA)
    return ArrowRows(batch, _sequences_decoder.decode(view[4:start]))


class Run(msgspec.Struct, frozen=True, gc=False):
    """Rows with their assigned offsets."""

    base_offset: int
    rows: Rows
    stamp: ProducerStamp | None = None


def to_batches(runs: Sequence[Run]) -> list[pa.RecordBatch]:
    """Convert runs, in order of their offsets, to batches of FILE_SCHEMA; Arrow rows are not copied."""
    if not runs:
        return []
    offsets, producers = _offsets(runs), _producer_columns(runs)
    batches: list[pa.RecordBatch] = []
    start = 0
    for content in _contents(runs):
        count = content.num_rows
        around = [column.slice(start, count) for column in (offsets, *producers)]
        batches.append(pa.RecordBatch.from_arrays([around[0], *content.columns, *around[1:]], schema=FILE_SCHEMA))
        start += count
    return batches


def _contents(runs: Sequence[Run]) -> list[pa.RecordBatch]:
    """The content of runs; adjacent row blocks share one batch, as building one has a cost."""
    batches: list[pa.RecordBatch] = []
    blocks: list[RowBlock] = []
    for run in runs:
        if isinstance(run.rows, RowBlock):
            blocks.append(run.rows)
            continue
        if blocks:
            batches.append(content_batch(blocks))
            blocks = []
        batches.append(run.rows.batch)
    return [*batches, content_batch(blocks)] if blocks else batches


def content_batch(blocks: Sequence[RowBlock]) -> pa.RecordBatch:
    """Convert blocks to one batch of CONTENT_SCHEMA."""
    columns = [
        _timestamps(blocks),
        pa.array(_joined([block.keys for block in blocks]), pa.binary()),
        pa.array(_joined([block.values for block in blocks]), pa.binary()),
        _headers(blocks),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=CONTENT_SCHEMA)


def _joined(columns: Sequence[list[bytes | None]]) -> list[bytes | None]:
    return columns[0] if len(columns) == 1 else list(chain.from_iterable(columns))


def _dense(base: int, count: int) -> pa.Array:
    return pa.array(np.arange(base, base + count, dtype=np.int64))


def _offsets(runs: Sequence[Run]) -> pa.Array:
    first, last = runs[0], runs[-1]
    total = sum(len(run.rows) for run in runs)
    if last.base_offset + len(last.rows) - first.base_offset == total:
        return _dense(first.base_offset, total)
    return pa.concat_arrays([_dense(run.base_offset, len(run.rows)) for run in runs])


def _timestamps(blocks: Sequence[RowBlock]) -> pa.Array:
    if len(blocks) == 1 and isinstance(blocks[0].timestamps, int):
        return pa.repeat(pa.scalar(blocks[0].timestamps * 1000, TIMESTAMP), len(blocks[0]))
    milliseconds = pa.array(list(chain.from_iterable(map(_spread_times, blocks))), pa.int64())
    return pc.multiply(milliseconds, integer(1000)).cast(TIMESTAMP)


def _spread_times(block: RowBlock) -> Sequence[int]:
    return [block.timestamps] * len(block) if isinstance(block.timestamps, int) else block.timestamps


def _headers(blocks: Sequence[RowBlock]) -> pa.Array:
    total = sum(map(len, blocks))
    if all(block.headers is None for block in blocks):
        return pa.nulls(total, HEADERS)
    return headers_array(_spread_headers(blocks))


def _spread_headers(blocks: Sequence[RowBlock]) -> list[tuple[Header, ...] | None]:
    spread = (block.headers if block.headers is not None else [None] * len(block) for block in blocks)
    return list(chain.from_iterable(spread))


def headers_array(column: Sequence[Sequence[Header] | None]) -> pa.Array:
    """Headers of each record as Arrow, built flat: a Python object per header, and none per struct."""
    lengths = [0 if headers is None else len(headers) for headers in column]
    names = [name for headers in column if headers for name, _ in headers]
    values = [value for headers in column if headers for _, value in headers]
    flat = pa.StructArray.from_arrays(
        [pa.array(names, pa.string()), pa.array(values, pa.binary())], fields=list(HEADER)
    )
    offsets = pa.array([0, *accumulate(lengths)], pa.int32())
    missing = pa.array([headers is None for headers in column])
    return pa.ListArray.from_arrays(offsets, flat, type=HEADERS, mask=missing)


def _producer_columns(runs: Sequence[Run]) -> list[pa.Array]:
    total = sum(len(run.rows) for run in runs)
    senders = list(chain.from_iterable(map(_senders, runs)))
    if all(sender.producer_id is None for sender in senders):
        return [pa.nulls(total, pa.string()), pa.nulls(total, pa.int32()), pa.nulls(total, pa.int64())]
    if len(senders) == 1:
        named, epoch = senders[0].producer_id, senders[0].epoch
        around = [pa.repeat(pa.scalar(named, pa.string()), total), pa.repeat(pa.scalar(epoch, pa.int32()), total)]
        return [*around, _sequence_column(senders, np.array([total]))]
    counts = np.array([sender.count for sender in senders])
    each = pa.array(np.repeat(np.arange(len(senders)), counts))
    ids = pa.array([sender.producer_id for sender in senders], pa.string())
    epochs = pa.array([None if sender.producer_id is None else sender.epoch for sender in senders], pa.int32())
    return [ids.take(each), epochs.take(each), _sequence_column(senders, counts)]


def _sequence_column(senders: Sequence[Sender], counts: Numbers) -> pa.Array:
    numbers = join_sequences([sender.sequences for sender in senders], counts)
    plain = [sender.sequences is None for sender in senders]
    return pa.array(numbers, mask=np.repeat(plain, counts) if any(plain) else None)


def _senders(run: Run) -> list[Sender]:
    if isinstance(run.rows, CrowdBlock) and run.rows.senders is not None:
        return run.rows.senders
    return [_sender(run.rows, run.stamp)]
