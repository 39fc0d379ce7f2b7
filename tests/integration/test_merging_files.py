"""Files into one, row group by row group: what is in it, and what that takes."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from pathlib import Path

import pyarrow as pa
import pytest

from delta_log.delta.parquet import OpenFile, encode_groups, encode_parquet, read_file, regroup
from delta_log.maintenance.compaction.merge_files import MergeOrder, carry_out, merge_rows
from delta_log.model.errors import Corruption
from delta_log.model.file_bin import Bin
from delta_log.model.schema import FILE_SCHEMA, ROW_GROUP, ROW_GROUP_BYTES
from delta_log.model.topic_config import ParquetCodec
from delta_log.model.types import DataFile
from delta_log.stores import LocalStore, MemoryStore, Store

NOW = 1_800_000_000_000
CODEC = ParquetCodec()
ORDER = ("offset", "timestamp")


def rows(offsets: Iterable[int], size: int = 10) -> pa.Table:
    numbers = list(offsets)
    headers = [None, [{"key": "a", "value": b""}]]
    return pa.Table.from_pydict(
        {
            "offset": numbers,
            "timestamp": [(NOW + n) * 1000 for n in numbers],
            "key": [None if n % 3 else b"%d" % n for n in numbers],
            "value": [os.urandom(size) for _ in numbers],
            "headers": [headers[n % 2] for n in numbers],
            "producer_id": [None] * len(numbers),
            "producer_epoch": [None] * len(numbers),
            "sequence": [None] * len(numbers),
        },
        FILE_SCHEMA,
    )


def put(store: Store, table: pa.Table) -> DataFile:
    data = encode_parquet(table, CODEC, ordered_by=ORDER)
    numbers = table.column("offset").to_pylist()
    base, last = min(numbers), max(numbers)
    path = f"partition=0/{base:020d}-1-0-0.parquet"
    store.put(f"t/{path}", data)
    return DataFile(path, 0, base, last, len(numbers), len(data), NOW + base, NOW + last, NOW + 5 - len(numbers))


def merge(store: Store, files: Sequence[DataFile]) -> DataFile:
    return merge_rows(store, "t", Bin(tuple(files)), "partition=0/merged.parquet", CODEC)


@pytest.mark.parametrize("counts", [[1], [1, 1, 1], [9_999, 1, 1], [10_000, 10_000], [300] * 70, [25_001, 3, 40_000]])
def test_the_file_is_the_very_one_that_all_rows_at_once_would_make(counts: list[int]):
    store, tables, offset = MemoryStore(), [], 0
    for count in counts:
        tables.append(rows(range(offset, offset + 2 * count, 2)))
        offset += 2 * count + 5
    made = merge(store, [put(store, table) for table in tables])
    whole = pa.concat_tables(tables)
    assert store.read("t/partition=0/merged.parquet") == encode_parquet(whole, CODEC, ordered_by=ORDER)
    assert (made.base_offset, made.last_offset, made.count) == (0, offset - 7, sum(counts))
    assert made.size == len(store.read("t/partition=0/merged.parquet"))
    assert made.modified_ms == NOW + 5 - max(counts)


@pytest.mark.parametrize("codec", ["uncompressed", "lz4", "snappy", "gzip"])
def test_any_codec_can_be_read_back(codec: str):
    table = rows(range(15_000))
    name = {"uncompressed": "none"}.get(codec, codec)
    store = MemoryStore()
    parts = encode_groups(regroup([table]), FILE_SCHEMA, ParquetCodec(name, None), ordered_by=ORDER)
    store.put_parts("a", parts)
    assert read_file(store, "a", FILE_SCHEMA).equals(table)


def test_row_groups_are_of_the_readers_size_however_the_rows_come():
    small = [rows([n]) for n in range(300)]
    assert [group.num_rows for group in regroup(small)] == [300]
    assert [group.num_rows for group in regroup([rows(range(ROW_GROUP + 1))])] == [ROW_GROUP, 1]
    large = [rows([n], ROW_GROUP_BYTES // 4) for n in range(10)]
    groups = list(regroup(large))
    assert sum(group.num_rows for group in groups) == 10
    assert max(group.nbytes for group in groups) <= ROW_GROUP_BYTES
    assert len(groups) <= 5
    huge = [rows([n], 2 * ROW_GROUP_BYTES) for n in range(2)]
    assert [group.num_rows for group in regroup(huge)] == [1, 1]
    assert list(regroup([])) == []
    assert pa.concat_tables(regroup(large)).equals(pa.concat_tables(large))


def test_a_reader_finds_an_offset_by_one_row_group(tmp_path: Path):
    store = LocalStore(tmp_path)
    made = merge(store, [put(store, rows(range(at, at + 7_000))) for at in range(0, 35_000, 7_000)])
    with closing(OpenFile(store, f"t/{made.path}")) as file:
        assert [group.rows for group in file.row_groups("offset", 0, 1 << 60)] == [10_000, 10_000, 10_000, 5_000]
        (group,) = file.row_groups("offset", 20_000, 20_001)
        assert (group.first, group.last) == (20_000, 29_999)


@pytest.mark.parametrize(
    "offsets",
    [[0, 2, 1, 3], [0, 1, 1, 3], [0, 1, 2, 4], [1, 2, 3, 3]],
    ids=["out of order", "twice", "another last one", "another first one"],
)
def test_rows_out_of_place_are_never_written(offsets: list[int]):
    store = MemoryStore()
    told = put(store, rows(range(4)))
    put(store, rows(offsets))
    store.put(f"t/{told.path}", encode_parquet(rows(offsets), CODEC, ordered_by=ORDER))
    with pytest.raises(Corruption, match="not those"):
        merge(store, [told])
    assert store.stat("t/partition=0/merged.parquet") is None


class WatchedStore(LocalStore):
    """Tells how much Arrow holds while a file is being written."""

    most = 0

    def put_parts(self, path: str, parts: Iterable[bytes | memoryview | pa.Buffer]) -> int:
        def watched() -> Iterator[bytes | memoryview | pa.Buffer]:
            for part in parts:
                self.most = max(self.most, pa.total_allocated_bytes() - self.before)
                yield part

        self.before = pa.total_allocated_bytes()
        return super().put_parts(path, watched())


def test_memory_does_not_grow_with_the_files(tmp_path: Path):
    store = WatchedStore(tmp_path)
    table = rows(range(5_000), 1_000)
    files: list[DataFile] = []
    for number in range(24):
        numbers = pa.array(range(number * 5_000, number * 5_000 + 5_000), pa.int64())
        files.append(put(store, table.set_column(0, FILE_SCHEMA.field("offset"), numbers)))
    made = merge(store, files)
    assert made.size > 110_000_000
    assert store.most < 60_000_000


def test_an_order_that_fails_is_answered_and_the_next_one_is_done(tmp_path: Path):
    store = LocalStore(tmp_path)
    file = put(store, rows(range(3)))
    lost = DataFile("partition=0/lost.parquet", 0, 0, 2, 3, 10, 0, 0, 0)
    orders = [
        MergeOrder(str(tmp_path), "t", Bin((each,)), f"partition=0/{number}.parquet", CODEC)
        for number, each in enumerate((lost, file))
    ]
    failed, done = carry_out(orders)
    assert (failed.file, failed.missing) == (None, "t/partition=0/lost.parquet")
    assert done.file is not None
    assert done.file.path == "partition=0/1.parquet"
    assert sorted(path.name for path in (tmp_path / "journal" / "staging").iterdir()) == []
