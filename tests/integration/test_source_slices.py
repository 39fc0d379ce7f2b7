"""A slice is read as it was planned, whatever became of its files and of the connection meanwhile. Without a JVM."""

import logging
import random
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest

from delta_log import Log, Record, Settings
from delta_log.model.errors import TopicClosed
from jobs.source.errors import DataLoss, NotReadable
from jobs.source.options import BATCH, ReadOptions, parse_options
from jobs.source.planning import Slice, Span
from jobs.source.positions import TopicPartition
from jobs.source.record_source import RecordSource
from jobs.source.slices import SliceReader
from tests.support.cutting_proxy import CuttingProxy
from tests.support.serving import serving

ORDERS = TopicPartition("orders", 0)
#: What a task in Spark's process leaves to a collection of all garbage behind it.
TASK = """
import gc, sys
from jobs.source.batch import BatchReader
from jobs.source.columns import spark_schema
from jobs.source.options import BATCH, parse_options

reader = BatchReader(parse_options({"subscribe": "orders", "path": sys.argv[1]}, BATCH), spark_schema(headers=False))
rows = [batch.num_rows for task in reader.partitions() for batch in reader.read(task)]
print(sum(rows), len(gc.get_objects()) < gc.get_freeze_count() / 4)
"""


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Log]:
    """Ten files of ten records each."""
    with Log.open(tmp_path / "root", settings=Settings(upkeep=False)) as opened:
        opened.create_topic("orders", 1, {"lakelog.fold.files": 2, "file.delete.delay.ms": 0})
        fill(opened)
        yield opened


def fill(log: Log) -> None:
    for first in range(0, 100, 10):
        log.append("orders", [Record(b"%d" % n) for n in range(first, first + 10)])
        log.flush()


def options_of(**given: str) -> ReadOptions:
    return parse_options({"subscribe": "orders"} | given, BATCH)


def plan(options: ReadOptions, start: int, end: int) -> Slice:
    ground = RecordSource(options)
    try:
        ground.partitions()
        return ground.slices([Span(ORDERS, start, end)])[0]
    finally:
        ground.close()


def read(options: ReadOptions, of: Slice, *, fail: bool = True) -> list[tuple[int, Any]]:
    return list(rows(options, of, fail=fail))


def rows(options: ReadOptions, of: Slice, *, fail: bool = True) -> Iterator[tuple[int, Any]]:
    reader = SliceReader(
        of, ("offset", "value"), path=options.path, server=options.server,
        patience_ms=options.patience_ms, fail_on_data_loss=fail,
    )  # fmt: skip
    for batch in reader.read():
        yield from zip(batch.column(0).to_pylist(), batch.column(1).to_pylist(), strict=True)


def wanted(start: int, end: int) -> list[tuple[int, bytes]]:
    return [(n, b"%d" % n) for n in range(start, end)]


def forget_old_files(log: Log) -> None:
    """As the background does once their time is over."""
    live = {file.path for file in log.files("orders", 0)}
    for path in Path(log.table_location("orders")).glob("partition=0/*.parquet"):
        if f"partition=0/{path.name}" not in live:
            path.unlink()


def test_a_slice_names_only_the_files_that_hold_something_of_it(log: Log):
    of = plan(options_of(path=log.location), 15, 35)
    assert of.tabled is not None
    assert [file.base_offset for file in of.tabled.files] == [10, 20, 30]
    assert read(options_of(path=log.location), of) == wanted(15, 35)


def test_who_wants_offsets_alone_opens_only_files_that_lack_some(log: Log):
    root, options = Path(log.location), options_of(path=log.location)
    whole = plan(options, 3, 95)
    lacking = replace(
        whole, tabled=replace(whole.tabled, files=tuple(replace(f, dense=False) for f in whole.tabled.files))
    )
    assert offsets(options, lacking) == list(range(3, 95))
    shutil.rmtree(root / "topics" / "orders" / "partition=0")
    assert offsets(options, whole) == list(range(3, 95))
    with pytest.raises(TopicClosed, match="it is missing"):
        offsets(options, lacking)


def offsets(options: ReadOptions, of: Slice) -> list[int]:
    reader = SliceReader(
        of, ("offset",), path=options.path, server=None, patience_ms=options.patience_ms, fail_on_data_loss=True
    )
    return [offset for batch in reader.read() for offset in batch.column(0).to_pylist()]


def test_files_that_were_replaced_and_are_gone_are_found_where_their_records_are_now(log: Log):
    options = options_of(path=log.location)
    of = plan(options, 5, 95)
    assert log.fold("orders")
    forget_old_files(log)
    assert read(options, of) == wanted(5, 95)


def test_files_may_go_while_a_slice_is_being_read(log: Log):
    options = options_of(path=log.location)
    coming = rows(options, plan(options, 5, 95))
    first = [next(coming) for _ in range(20)]
    assert log.fold("orders")
    forget_old_files(log)
    assert first + list(coming) == wanted(5, 95)


def test_records_that_went_meanwhile_are_a_loss_that_fails_or_is_told(log: Log, caplog: pytest.LogCaptureFixture):
    options = options_of(path=log.location)
    of = plan(options, 5, 95)
    log.delete_records("orders", 0, 40)
    forget_old_files(log)
    with pytest.raises(DataLoss, match="orders-0 from 5 to below 40"):
        read(options, of)
    with caplog.at_level(logging.WARNING):
        assert read(options, of, fail=False) == wanted(40, 95)
    assert "orders-0 from 5 to below 40" in caplog.text


def test_a_topic_that_was_made_anew_is_another_one(log: Log):
    options = options_of(path=log.location)
    of = plan(options, 0, 100)
    log.delete_topic("orders")
    log.create_topic("orders", 1)
    fill(log)
    shutil.rmtree(Path(log.table_location("orders")) / "partition=0")
    with pytest.raises(DataLoss, match="orders-0 from 0 to below 100"):
        read(options, of)
    assert read(options, of, fail=False) == []


def test_a_topic_that_went_while_it_was_planned_is_a_loss_and_not_nothing(log: Log):
    options = options_of(path=log.location)
    with pytest.raises(DataLoss, match="orders-0 from 0 to below 5"):
        read(options, Slice(Span(ORDERS, 0, 5), 0, None))


def test_tables_of_a_topic_that_was_made_again_are_not_read_for_the_new_one(tmp_path: Path):
    """They are looked at once a second: until then they are the old one's."""
    with serving(tmp_path / "root") as server, httpx.Client(base_url=server.url) as ask:
        options = options_of(path=str(tmp_path / "root"), server=server.url)
        ground, found = RecordSource(options), list[list[int]]()
        for first in (0, 100):
            ask.delete("/topics/orders")
            ask.put("/topics/orders").raise_for_status()
            body = "\n".join(str(n) for n in range(first, first + 10))
            ask.post("/topics/orders?wait=table", content=body, headers={"Content-Type": "application/x-ndjson"})
            ground.partitions()
            (of,) = ground.slices([Span(ORDERS, 0, 10)])
            found.append([int(value) for _, value in read(options, of)])
        ground.close()
    assert found == [list(range(10)), list(range(100, 110))]


def test_a_topic_that_a_server_has_no_more_is_a_loss(tmp_path: Path):
    with serving(None) as server:
        options, of = options_of(server=server.url), Slice(Span(ORDERS, 3, 5), 0, None)
        with pytest.raises(DataLoss, match="orders-0 from 3 to below 5"):
            read(options, of)
        assert read(options, of, fail=False) == []


def test_what_is_above_the_table_comes_from_the_server_and_each_record_once(tmp_path: Path):
    with serving(tmp_path / "root") as server:
        ask = httpx.Client(base_url=server.url)
        ask.put("/topics/orders", json={"configs": {"lakelog.commit.interval.ms": 60_000}})
        for first, wait in ((0, "?wait=table"), (10, ""), (20, "")):
            body = "\n".join(str(n) for n in range(first, first + 10))
            ask.post(f"/topics/orders{wait}", content=body, headers={"Content-Type": "application/x-ndjson"})
        ask.close()
        options = options_of(path=str(tmp_path / "root"), server=server.url)
        of = plan(options, 5, 28)
        assert of.tabled is not None
        assert of.tabled.end == 10
        assert read(options, of) == wanted(5, 28)
        assert read(replace(options, path=None), of) == wanted(5, 28), "all of it, where there are no tables"


def test_a_connection_that_breaks_off_is_gone_on_with_from_behind_what_came(tmp_path: Path):
    """Large values, so that answers are cut in the middle; nothing is missing, nothing comes twice."""
    size = 100_000
    with serving(None) as server, CuttingProxy(random.Random(7)) as proxy:
        proxy.target = server.address
        ask = httpx.Client(base_url=server.url)
        ask.put("/topics/orders")
        for first in range(0, 60, 20):
            body = "\n".join(str(n) * size for n in range(10 + first, 10 + first + 20))
            ask.post("/topics/orders", content=body, headers={"Content-Type": "application/x-ndjson"})
        ask.close()
        proxy.trouble = {"cut the answer": 0.4, "lose the answer": 0.1, "spoil the answer": 0.1}
        options = options_of(server=proxy.url)
        while proxy.happened["cut the answer"] < 2:
            slices = [Slice(Span(ORDERS, start, start + 15), 0, None) for start in range(0, 60, 15)]
            found = [row for of in slices for row in read(options, of)]
    assert [(offset, value[:2]) for offset, value in found] == [(n, str(n + 10).encode()) for n in range(60)]


def test_a_server_that_is_gone_is_waited_for_only_so_long(tmp_path: Path):
    with serving(None) as server:
        url = server.url
    options = options_of(server=url)
    with pytest.raises(NotReadable, match=re.escape(f"records of orders-0 of {url}")):
        read(replace(options, patience_ms=200), Slice(Span(ORDERS, 0, 5), 0, None))


def test_a_task_leaves_little_to_the_collection_that_spark_has_made_behind_each(log: Log):
    command = [sys.executable, "-c", TASK, log.location]
    ended = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    assert ended.stdout.split() == ["100", "True"]
