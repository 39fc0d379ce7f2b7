"""The records of a request, split by partition, in the journal's encoding. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, TypeVar

import mmh3
import msgspec
import numpy as np
import pyarrow as pa

from delta_log.model.errors import InvalidRecord
from delta_log.model.murmur2 import Numbers
from delta_log.model.types import ProducerStamp
from delta_log.records.payload_kinds import ARROW, ROWS
from delta_log.records.row_codec import ArrowRows, RowBlock, Rows, encode_arrow, encode_block, merge_blocks
from delta_log.records.sequences import pack_sequences

T = TypeVar("T")
#: From this many records on, a partition's share of a request is a frame of its own, and is kept as bytes.
LARGE: Final = 64


class SpilledRows(msgspec.Struct, gc=False, frozen=True):
    """Records that are stored elsewhere in the journal's encoding; `crc` is of these bytes."""

    count: int
    crc: int

    def __len__(self) -> int:
        return self.count


class Part(msgspec.Struct, gc=False):
    """The records of a request for one partition, as rows and in the journal's encoding."""

    partition: int
    rows: Rows | SpilledRows
    kind: int
    payload: bytes | memoryview


class Request(msgspec.Struct):
    """A unit of the journal: all of it becomes visible, or nothing. `partitions`: their number at assignment."""

    parts: list[Part]
    assignment: Sequence[int]
    count: int
    size: int
    timestamp_ms: int
    partitions: int
    nulls: int = 0
    stamp: ProducerStamp | None = None
    digest: bytes = b""
    #: why it must not be stored; a repeat of a stored request is answered all the same
    refusal: InvalidRecord | None = None
    reassign: Callable[[int], Sequence[int]] | None = None


def block_parts(block: RowBlock, assignment: list[int], partitions: int) -> list[Part]:
    try:
        return [_block_part(partition, rows) for partition, rows in _split(block, assignment, partitions)]
    except OverflowError as error:
        raise InvalidRecord(0, str(error)) from error


def _split(block: RowBlock, assignment: list[int], partitions: int) -> list[tuple[int, RowBlock]]:
    """A dense block for each touched partition, in the request's order."""
    first, count = assignment[0], len(assignment)
    if count == 1 or assignment.count(first) == count:
        return [(first, block)]
    turn = assignment[:partitions]
    if len(set(turn)) == len(turn) and (turn * (count // len(turn) + 1))[:count] == assignment:
        # Round-robin, as for null keys: each partition takes a slice.
        strides = sorted((partition, at) for at, partition in enumerate(turn))
        return [(partition, _gather(block, range(count)[at :: len(turn)])) for partition, at in strides]
    places: dict[int, list[int]] = {}
    for index, partition in enumerate(assignment):
        places.setdefault(partition, []).append(index)
    return [(partition, _gather(block, places[partition])) for partition in sorted(places)]


def _gather(block: RowBlock, indexes: range | list[int]) -> RowBlock:
    first = block.sequences
    return RowBlock(
        _pick(block.keys, indexes),
        _pick(block.values, indexes),
        block.timestamps if isinstance(block.timestamps, int) else _pick(block.timestamps, indexes),
        None if block.headers is None else _pick(block.headers, indexes),
        pack_sequences(first, indexes) if isinstance(first, int) else None,
    )


def _pick(column: list[T], indexes: range | list[int]) -> list[T]:
    if isinstance(indexes, range):
        return column[indexes.start : indexes.stop : indexes.step]
    return list(map(column.__getitem__, indexes))


def _block_part(partition: int, rows: RowBlock) -> Part:
    payload = encode_block(rows)
    return Part(partition, rows, ROWS, payload)


def merge_parts(parts: Sequence[Part], stamps: Sequence[ProducerStamp | None]) -> Part:
    """Merge rows of several requests for one partition into one part."""
    rows = [part.rows for part in parts if isinstance(part.rows, RowBlock)]
    return _block_part(parts[0].partition, merge_blocks(rows, stamps))


def arrow_parts(
    content: pa.RecordBatch, assignment: Numbers, partitions: int, stamp: ProducerStamp | None
) -> list[Part]:
    return [_arrow_part(partition, rows) for partition, rows in _split_arrow(content, assignment, partitions, stamp)]


def _split_arrow(
    content: pa.RecordBatch, assignment: Numbers, partitions: int, stamp: ProducerStamp | None
) -> list[tuple[int, ArrowRows]]:
    """Like `_split`, for Arrow: a stable sort by partition, then a slice for each."""
    sequence = None if stamp is None else stamp.sequence
    counts: list[int] = np.bincount(assignment, minlength=partitions).tolist()
    if max(counts) == len(assignment):
        return [(int(assignment[0]), ArrowRows(content, sequence))]
    order: Numbers = np.argsort(assignment.astype(np.int16), kind="stable")
    ordered = content.take(pa.array(order))
    result: list[tuple[int, ArrowRows]] = []
    start = 0
    for partition, count in enumerate(counts):
        if count:
            taken = order[start : start + count]
            sequences = None if sequence is None else pack_sequences(sequence, taken)
            result.append((partition, ArrowRows(ordered.slice(start, count), sequences)))
            start += count
    return result


def _arrow_part(partition: int, rows: ArrowRows) -> Part:
    payload = encode_arrow(rows)
    return Part(partition, rows, ARROW, payload)


def assignment_digest(assignment: Sequence[int]) -> bytes:
    """Digest to verify that a repeat is assigned like the first request."""
    return mmh3.hash_bytes(msgspec.msgpack.encode(list(assignment)))[:8]


def content_digest(content: bytes, explicit: Sequence[int | None] | None) -> bytes:
    """Digest to distinguish a repeat from other content under the same sequence."""
    places = b"" if explicit is None else msgspec.msgpack.encode(explicit)
    return mmh3.hash_bytes(content + places)
