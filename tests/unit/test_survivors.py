"""What is left of files is written anew, in files that are not too large."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest

from delta_log.delta.parquet import encode_parquet, read_file
from delta_log.maintenance.compaction.survivors import SurvivorsOrder, carry_out, write_survivors
from delta_log.model.errors import Corruption, StorageRefused
from delta_log.model.offset_sets import OffsetSet
from delta_log.model.schema import FILE_SCHEMA
from delta_log.model.topic_config import ParquetCodec
from delta_log.model.types import DataFile
from delta_log.stores import MemoryStore

CODEC = ParquetCodec()
MIB = 1024 * 1024


def put(store: MemoryStore, offsets: Iterable[int], size: int = 5) -> DataFile:
    rows = [
        {"offset": at, "timestamp": at * 1000, "key": b"%d" % at, "value": os.urandom(size), "headers": None}
        for at in offsets
    ]
    data = encode_parquet(pa.Table.from_pylist(rows, schema=FILE_SCHEMA), CODEC, ordered_by=("offset", "timestamp"))
    base, last = rows[0]["offset"], rows[-1]["offset"]
    path = f"partition=0/{base:020d}-x.parquet"
    store.put(f"t/{path}", data)
    return DataFile(path, 0, base, last, len(rows), len(data), base, last, 100 - base % 50)


def order(*files: DataFile, leaving: Iterable[int], segment_bytes: int = MIB) -> SurvivorsOrder:
    gone = OffsetSet()
    gone.add(np.array(sorted(leaving), np.int64))
    return SurvivorsOrder("", "t", files, gone, "job-1", CODEC, segment_bytes)


def rows_of(store: MemoryStore, *files: DataFile) -> pa.Table:
    return pa.concat_tables([read_file(store, f"t/{file.path}", FILE_SCHEMA) for file in files])


def test_what_is_left_of_neighbours_is_one_file_as_it_was_at_its_offsets():
    store = MemoryStore()
    files = [put(store, range(40)), put(store, range(45, 90, 3))]
    gone = {0, 1, 17, 39, 45, 87}
    (made,) = write_survivors(store, order(*files, leaving=gone), "job-7")
    before = rows_of(store, *files)
    stays = [at not in gone for at in before.column("offset").to_pylist()]
    assert rows_of(store, made).equals(before.filter(pa.array(stays)).combine_chunks())
    assert made.path == f"partition=0/{2:020d}-job-7.parquet"
    assert (made.base_offset, made.last_offset, made.count) == (2, 84, 49)
    assert (made.min_timestamp_ms, made.max_timestamp_ms, made.modified_ms) == (2, 84, 55)
    assert made.size == len(store.read(f"t/{made.path}"))


def test_of_files_that_lose_everything_nothing_is_left():
    store = MemoryStore()
    assert list(write_survivors(store, order(put(store, range(9)), leaving=range(9)), "job-7")) == []


def test_what_is_too_much_for_one_file_is_several_one_behind_the_other():
    store = MemoryStore()
    file = put(store, range(60_000), 60)
    made = list(write_survivors(store, order(file, leaving=range(0, 60_000, 3), segment_bytes=MIB), "job-7"))
    assert len(made) > 2
    assert all(each.size <= MIB for each in made)
    assert all(each.last_offset < after.base_offset for each, after in pairwise(made))
    assert rows_of(store, *made).num_rows == 40_000
    assert len({each.path for each in made}) == len(made)


def test_what_does_not_fit_is_a_file_of_its_own():
    store = MemoryStore()
    file = put(store, range(3), 2 * MIB)
    made = list(write_survivors(store, order(file, leaving=[1], segment_bytes=MIB), "job-7"))
    assert sum(each.count for each in made) == 2


@pytest.mark.parametrize("wrong", ["count", "last", "leaving"])
def test_where_the_rows_are_not_those_that_were_seen_nothing_stays(wrong: str):
    store = MemoryStore()
    file, leaving = put(store, range(0, 20, 2)), [2, 4]
    if wrong == "leaving":
        leaving = [2, 3]
    told = replace(file, **{"count": {"count": 9}, "last": {"last_offset": 19}, "leaving": {}}[wrong])
    with pytest.raises(Corruption):
        list(write_survivors(store, order(told, leaving=leaving), "job-7"))
    (answer,) = carry_out([order(told, leaving=leaving)], store=store)
    assert answer.files == ()
    assert answer.trouble is not None
    assert answer.trouble.what == "damaged"
    assert [entry.name for entry in store.list("t/partition=0")] == [file.path.rpartition("/")[2]]


def test_an_order_that_fails_is_answered_and_the_next_one_is_done():
    store = MemoryStore()
    there = put(store, range(5))
    lost = replace(there, path="partition=0/lost.parquet")
    failed, done = carry_out([order(lost, leaving=[1]), order(there, leaving=[1])], store=store)
    assert failed.trouble is not None
    assert (failed.trouble.what, failed.trouble.path) == ("missing", "t/partition=0/lost.parquet")
    assert [file.count for file in done.files] == [4]


def test_a_late_run_of_an_order_that_fails_takes_nothing_of_the_one_that_counts():
    """Whoever loses its connection has its work done by another; then the connection is there again, and breaks."""
    store = MemoryStore()
    same = order(put(store, range(60_000), 60), leaving=range(0, 60_000, 3))
    (counts,) = carry_out([same], store=store)
    assert len(counts.files) > 2
    written: list[str] = []

    def breaks(step: str) -> None:
        written.append(step)
        if len(written) == 2:
            raise StorageRefused("t", "the connection broke")

    (late,) = carry_out([same], store=store, probe=breaks)
    assert late.trouble is not None
    assert len(written) == 2
    assert rows_of(store, *counts.files).num_rows == 40_000
    assert {entry.name for entry in store.list("t/partition=0")} == {
        file.path.rpartition("/")[2] for file in (*same.inputs, *counts.files)
    }
