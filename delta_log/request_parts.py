"""The records of a request, split by partition, as the journal will carry them. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import mmh3
import msgspec
import numpy as np
import pyarrow as pa

from delta_log.errors import InvalidRecord
from delta_log.frames import ARROW, ROWS, checksum
from delta_log.murmur2 import Numbers
from delta_log.rows import ArrowRows, RowBlock, Rows, content_batch, encode_arrow, encode_block, merge_blocks
from delta_log.types import ProducerStamp

#: From so many records on a request is Arrow as soon as it is checked.
ARROW_FROM: Final = 64


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


def block_parts(block: RowBlock, assignment: Sequence[int], partitions: int, stamp: ProducerStamp | None) -> list[Part]:
    """A few records stay rows; many become Arrow at once, here, where the other threads need not wait for it."""
    if len(block) >= ARROW_FROM:
        return arrow_parts(content_batch([block]), assignment, partitions, stamp)
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


def merge_parts(parts: Sequence[Part]) -> Part:
    """Rows of plain requests for one partition, as if one request had brought them."""
    return _block_part(
        parts[0].partition, merge_blocks([part.rows for part in parts if isinstance(part.rows, RowBlock)])
    )


def arrow_parts(
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
    places: Numbers = np.array(assignment, np.int16)
    order: Numbers = np.argsort(places, kind="stable")
    ordered = content.take(pa.array(order))
    counts: list[int] = np.bincount(places, minlength=partitions).tolist()
    result: list[tuple[int, ArrowRows]] = []
    start = 0
    for partition, count in enumerate(counts):
        if count:
            taken = order[start : start + count]
            sequences: list[int] | None = None if sequence is None else (taken + sequence).tolist()
            result.append((partition, ArrowRows(ordered.slice(start, count), sequences)))
            start += count
    return result


def _arrow_part(partition: int, rows: ArrowRows) -> Part:
    payload = encode_arrow(rows)
    return Part(partition, rows, ARROW, payload, checksum(payload))


def content_digest(content: bytes, explicit: Sequence[int | None] | None) -> bytes:
    """What tells a repeat from other content under the same sequence."""
    places = b"" if explicit is None else msgspec.msgpack.encode(explicit)
    return mmh3.hash_bytes(content + places)
