"""Sifting: entries of files go to buckets, and a bucket says which offsets leave."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from hashlib import blake2b

import pyarrow as pa
import pytest

from delta_log.delta.parquet import encode_parquet
from delta_log.maintenance.compaction.remote_failure import RemoteFailure
from delta_log.maintenance.compaction.superseded import SiftOrder, gather, spread
from delta_log.model.schema import FILE_SCHEMA
from delta_log.model.topic_config import ParquetCodec
from delta_log.model.types import DataFile
from delta_log.stores import MemoryStore
from tests.support.key_entries import Row, surviving_offsets


def put(store: MemoryStore, rows: Sequence[Row]) -> DataFile:
    given = [{"offset": at, "timestamp": at, "key": key, "value": value} for at, key, value in rows]
    data = encode_parquet(
        pa.Table.from_pylist(given, schema=FILE_SCHEMA), ParquetCodec(), ordered_by=("offset", "timestamp")
    )
    base, last = rows[0][0], rows[-1][0]
    store.put(f"t/partition=0/{base}.parquet", data)
    return DataFile(f"partition=0/{base}.parquet", 0, base, last, len(rows), len(data), 0, 0, 0)


def order(
    *files: DataFile, dirty_from: int = 0, tombstones_below: int = 0, first: int = 0, buckets: int = 1
) -> SiftOrder:
    return SiftOrder("", "t", files, dirty_from, tombstones_below, first, buckets)


def leaving(store: MemoryStore, *orders: SiftOrder) -> list[int]:
    buckets: defaultdict[int, list[bytes]] = defaultdict(list)
    for each in orders:
        for bucket, piece in spread(each, store=store):
            assert each.first_bucket <= bucket < each.first_bucket + each.buckets
            buckets[bucket].append(piece)
    verdicts = [gather(bucket, reversed(pieces)) for bucket, pieces in buckets.items()]
    assert not any(verdict.troubles for verdict in verdicts)
    return sorted(offset for verdict in verdicts for offset in verdict.offsets().tolist())


def some_rows(first: int, count: int) -> list[Row]:
    """Keys of every length up to some that are stood for by digests, and none; values and none."""
    return [
        (at, None if at % 11 == 0 else b"k" * (at * 7 % 90), None if at % 5 == 0 else b"v")
        for at in range(first, first + count)
    ]


@pytest.mark.parametrize("buckets", [1, 2, 50])
@pytest.mark.parametrize(("dirty_from", "tombstones_below"), [(0, 0), (100, 60), (130, 1000)])
def test_in_any_number_of_buckets_the_same_leave_as_by_the_law(buckets: int, dirty_from: int, tombstones_below: int):
    store = MemoryStore()
    parts = [some_rows(0, 70), some_rows(70, 50), some_rows(120, 80)]
    told = {"dirty_from": dirty_from, "tombstones_below": tombstones_below, "first": 7, "buckets": buckets}
    files = [put(store, part) for part in parts]
    rows = [row for part in parts for row in part]
    stay = surviving_offsets(rows, dirty_from=dirty_from, tombstones_below=tombstones_below)
    expected = sorted({at for at, _, _ in rows} - set(stay))
    assert len(expected) > 20
    assert leaving(store, order(*files, **told)) == expected
    assert leaving(store, *[order(file, **told) for file in reversed(files)]) == expected


def test_a_key_with_most_of_the_records_fills_no_bucket_of_its_own():
    """What a later record of the same piece has replaced leaves in any case: it can wait anywhere, without its key."""
    store, key = MemoryStore(), b"x" * 63
    rows = [(at, key if at % 10 else b"%d" % at, b"v") for at in range(6000)]
    pieces = list(spread(order(put(store, rows), buckets=6), store=store))
    held: defaultdict[int, int] = defaultdict(int)
    for bucket, piece in pieces:
        held[bucket] += pa.ipc.open_stream(piece).read_all().num_rows
    assert sum(held.values()) == 6000
    assert max(held.values()) < 1500, held
    assert sum(len(piece) for _, piece in pieces) < 6000 * 30
    stay = surviving_offsets(rows, dirty_from=0, tombstones_below=0)
    expected = sorted({at for at, _, _ in rows} - set(stay))
    assert len(expected) == 5400 - 1
    assert leaving(store, order(put(store, rows), buckets=6)) == expected


@pytest.mark.parametrize("length", [63, 64, 65, 1000])
def test_no_key_is_taken_for_another_nor_for_what_stands_for_one(length: int):
    key = b"x" * length
    digest = blake2b(key, digest_size=64).digest()
    rows: list[Row] = [(0, key, b""), (1, digest, b""), (2, key[:-1], b""), (3, key + b"x", b""), (4, digest[:-1], b"")]
    store = MemoryStore()
    assert leaving(store, order(put(store, rows))) == []
    again = put(store, [(5, key, b"")])
    assert leaving(store, order(put(store, rows), again)) == [0]


def test_keys_of_one_partition_are_shared_out_evenly():
    """All have a hash with the same remainder, as it is by that that they came to their partition."""
    from delta_log.model.partitioner import assign_partitions

    keys = [b"key-%d" % number for number in range(12_000)]
    places, _ = assign_partitions("murmur2", keys, 12, 0, "round_robin", None)
    ours = [key for key, place in zip(keys, places, strict=True) if place == 4]
    store = MemoryStore()
    file = put(store, [(at, key, b"") for at, key in enumerate(ours)])
    counts = [pa.ipc.open_stream(piece).read_all().num_rows for _, piece in spread(order(file, buckets=6), store=store)]
    assert sum(counts) == len(ours)
    assert len(counts) == 6
    assert max(counts) < 2 * min(counts)


def trouble(store: MemoryStore, file: DataFile) -> RemoteFailure:
    ((bucket, piece),) = spread(order(file, first=3, buckets=4), store=store)
    assert bucket == 3
    (told,) = gather(bucket, [piece]).troubles
    return told


def test_what_is_wrong_with_a_file_reaches_whoever_gathers():
    store = MemoryStore()
    file = put(store, some_rows(0, 20))
    path = f"t/{file.path}"
    data = store.read(path)
    assert trouble(store, replace(file, count=19)).what == "damaged"
    assert trouble(store, replace(file, base_offset=1)).path == path
    store.put(path, data[:100] + bytes([data[100] ^ 0xFF]) + data[101:])
    assert trouble(store, file).path == path
    store.delete(path)
    assert (trouble(store, file).what, trouble(store, file).path) == ("missing", path)
    (piece,) = [piece for _, piece in spread(order(put(store, some_rows(30, 20))), store=store)]
    bad = [piece for _, piece in spread(order(file), store=store)]
    assert gather(0, [piece, *bad]).leaving == b""
