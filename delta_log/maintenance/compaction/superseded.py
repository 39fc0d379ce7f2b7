"""Finds superseded records, one bucket of keys at a time, on any worker that reaches the store.

    spread   files            →  an entry for each record with a key, in the bucket of its key
    gather   a whole bucket   →  the offsets of the records that do not survive

The shuffle between the two keeps a bucket together; the records stay where they are. This module knows files and keys.
It must not know tables, commits or its caller, so orders and answers can be serialized.

A record that a later one of the same half a million entries replaces leaves in any case: its entry loses its key and is
put into the buckets round-robin. So a key with many records does not fill one bucket.

Keys are compared, not their hashes: no client can choose a key that removes another key's record. A key of 64 bytes or
more is replaced by a cryptographic digest of 64 bytes, which cannot equal a key that is compared as it is: those are
shorter. So an entry has at most 80 bytes, and a bucket needs memory for a million of them, however many records exist.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, Final

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from delta_log.delta.verified_read import read_rows_of
from delta_log.maintenance.compaction.by_key import ENTRIES, find_replaced, leaving_offsets
from delta_log.maintenance.compaction.remote_failure import RemoteFailure, describe_failure
from delta_log.model.errors import LakelogError
from delta_log.model.murmur2 import hash_array
from delta_log.model.offset_sets import Numbers
from delta_log.model.schema import integer
from delta_log.model.types import DataFile
from delta_log.root.root import as_root
from delta_log.stores import Store

#: Approximate maximum of entries in a bucket, unless keys are chosen to fall into the same one.
BUCKET_ENTRIES: Final = 1_000_000
#: Keys of this length or more are replaced by a digest of this many bytes.
_DIGEST: Final = 64
#: Entries put into buckets at once: many, because each bucket gets a separate piece.
_SPREAD_ENTRIES: Final = 500_000
#: Rows read at once: mostly keys and offsets, so more rows than are written at once.
_READ_ROWS: Final = 100_000
_TROUBLE: Final = b"trouble"


@dataclass(frozen=True, slots=True)
class SiftOrder:
    """An order to spread the entries of one partition's files over the buckets from `first_bucket` on."""

    root: str
    directory: str
    files: tuple[DataFile, ...]
    dirty_from: int
    tombstones_below: int
    first_bucket: int
    buckets: int

    @property
    def inputs(self) -> tuple[DataFile, ...]:
        return self.files

    @property
    def size(self) -> int:
        return sum(file.size for file in self.files)


@dataclass(frozen=True, slots=True)
class Verdict:
    """The result of one bucket: `leaving` has the offsets that leave, eight bytes each, in rising order."""

    bucket: int
    leaving: bytes
    troubles: tuple[RemoteFailure, ...]

    def offsets(self) -> Numbers:
        return np.frombuffer(self.leaving, np.int64)


def spread(order: SiftOrder, *, store: Store | None = None) -> Iterator[tuple[int, bytes]]:
    """Yield buckets with pieces of their entries. A failure is also yielded as a piece."""
    try:
        place = store or as_root(order.root).store
        for entries in _held_together(_entries(place, order)):
            yield from _in_buckets(entries, order)
    except (LakelogError, OSError) as error:
        told = ENTRIES.with_metadata({_TROUBLE: msgspec.json.encode(describe_failure(error))})
        yield order.first_bucket, _to_piece(told.empty_table())


def gather(bucket: int, pieces: Iterable[bytes]) -> Verdict:
    """Judge a bucket from all of its pieces, in any order."""
    tables = [pa.ipc.open_stream(piece).read_all() for piece in pieces]
    troubles = tuple(trouble for table in tables for trouble in _told(table.schema))
    if troubles or not tables:
        return Verdict(bucket, b"", troubles)
    return Verdict(bucket, leaving_offsets(pa.concat_tables(tables)).tobytes(), ())


def _told(schema: pa.Schema) -> Iterator[RemoteFailure]:
    metadata: dict[bytes, bytes] = dict(schema.metadata or ())
    if _TROUBLE in metadata:
        yield msgspec.json.decode(metadata[_TROUBLE], type=RemoteFailure)


def _entries(store: Store, order: SiftOrder) -> Iterator[pa.Table]:
    for file in order.files:
        fades = file.base_offset < order.tombstones_below
        columns = ("offset", "key", "value") if fades else ("offset", "key")
        for part in read_rows_of(store, order.directory, file, columns, rows=_READ_ROWS):
            yield _entries_of(part, order)


def _entries_of(part: pa.Table, order: SiftOrder) -> pa.Table:
    keyed = part.filter(pc.is_valid(part.column("key")))
    offsets = keyed.column("offset")
    dirty = pc.greater_equal(offsets, integer(order.dirty_from))
    fading: Any = pa.array(np.zeros(keyed.num_rows, bool))
    if "value" in keyed.column_names:
        fading = pc.and_(pc.is_null(keyed.column("value")), pc.less(offsets, integer(order.tombstones_below)))
    keys = keyed.column("key").cast(pa.binary())
    if keyed.num_rows and pc.max(pc.binary_length(keys)).as_py() >= _DIGEST:
        keys = pa.array(map(_short, keys.to_pylist()), pa.binary())
    return pa.Table.from_arrays([keys, offsets, dirty, fading], schema=ENTRIES)


def _short(key: bytes) -> bytes:
    return key if len(key) < _DIGEST else blake2b(key, digest_size=_DIGEST).digest()


def _held_together(tables: Iterable[pa.Table]) -> Iterator[pa.Table]:
    held: list[pa.Table] = []
    rows = 0
    for table in tables:
        held.append(table)
        rows += table.num_rows
        if rows >= _SPREAD_ENTRIES:
            yield pa.concat_tables(held).combine_chunks()
            held, rows = [], 0
    if rows:
        yield pa.concat_tables(held).combine_chunks()


def _in_buckets(entries: pa.Table, order: SiftOrder) -> Iterator[tuple[int, bytes]]:
    if order.buckets == 1:
        yield order.first_bucket, _to_piece(entries)
        return
    replaced = find_replaced(entries)
    numbers = _bucket_numbers(entries.column("key").combine_chunks(), order.buckets)
    numbers[replaced] = np.arange(np.count_nonzero(replaced)) % order.buckets
    sorted_ = _without_keys(entries, pa.array(replaced)).take(pa.array(np.argsort(numbers, kind="stable")))
    ends = np.cumsum(np.bincount(numbers, minlength=order.buckets)).tolist()
    start = 0
    for number, end in enumerate(ends):
        if end > start:
            yield order.first_bucket + number, _to_piece(sorted_.slice(start, end - start))
        start = end


def _without_keys(entries: pa.Table, replaced: Any) -> pa.Table:
    """Remove the keys of replaced entries: these leave unconditionally and replace nothing; their replacements do."""
    keys, offsets, dirty, fading = entries.columns
    columns = [
        pc.if_else(replaced, pa.scalar(b"", pa.binary()), keys),
        offsets,
        pc.and_not(dirty, replaced),
        pc.or_(fading, replaced),
    ]
    return pa.Table.from_arrays(columns, schema=ENTRIES)


def _bucket_numbers(keys: pa.Array, buckets: int) -> Numbers:
    """Bucket of each key. The hashes of one partition's keys may share a remainder, so they are mixed first."""
    mixed = hash_array(keys).astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    return ((mixed >> np.uint64(32)) % np.uint64(buckets)).astype(np.uint32)


def _to_piece(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    return sink.getvalue().to_pybytes()
