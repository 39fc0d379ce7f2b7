"""Rows that were promised are decoded ahead of who sends them: in order, a few at once, and nothing is left behind."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pyarrow as pa
import pytest

from delta_log import Fetched, PartialFetch
from delta_log.delta.parquet import encode_parquet
from delta_log.fetch.deferred_plan import plan_later
from delta_log.fetch.deferred_rows import DeferredRows, OpenFileLimit, Step
from delta_log.fetch.fetch_result import FetchLimits
from delta_log.model.errors import OutcomeUnknown
from delta_log.model.schema import FILE_SCHEMA, RECORD_COLUMNS, ROW_GROUP
from delta_log.model.topic_config import ParquetCodec
from delta_log.stores import MemoryStore
from ingest_api.formats.encode.prefetch import Ahead, held_at_once

GROUPS = 8
PATIENCE_S = 20.0
Tried = Callable[[PartialFetch, ThreadPoolExecutor], Awaitable[None]]


class Place:
    """A file of eight steps, and a promise of them all."""

    def __init__(self) -> None:
        values = pa.repeat(pa.scalar(b"x" * 120, pa.binary()), GROUPS * ROW_GROUP)
        numbers = pa.array(range(GROUPS * ROW_GROUP), pa.int64())
        columns = {"offset": numbers, "timestamp": numbers.cast(FILE_SCHEMA.field("timestamp").type), "value": values}
        nulls = {name: pa.nulls(len(numbers), FILE_SCHEMA.field(name).type) for name in FILE_SCHEMA.names}
        table = pa.table(nulls | columns, schema=FILE_SCHEMA)
        self.store = MemoryStore()
        self.store.put("file", encode_parquet(table, ParquetCodec(), ordered_by=("offset", "timestamp")))
        self.room = OpenFileLimit(1)

    def begin(self, batches: list[pa.RecordBatch] | None = None) -> PartialFetch:
        later = DeferredRows(RECORD_COLUMNS, self.room)
        file = later.open(self.store, "file")
        assert file is not None
        end = GROUPS * ROW_GROUP
        later.add(file, plan_later(file.row_groups("offset", 0, end), 0, end, FetchLimits()).promises, lambda e: e)
        return PartialFetch(Fetched("t", 0, batches or [], end, end, 0, pa.schema([])), later)


@pytest.fixture(scope="module")
def place() -> Place:
    return Place()


class Loads:
    """Which steps were loaded; each waits for its turn while `gate` is shut."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.begun = 0
        self.most = 0
        self.running = 0
        self.gate = threading.Event()
        self.gate.set()
        self._lock = threading.Lock()
        whole = Step.load

        def load(step: Step) -> list[pa.RecordBatch]:
            with self._lock:
                self.begun += 1
                self.running += 1
                self.most = max(self.most, self.running)
            assert self.gate.wait(PATIENCE_S)
            try:
                return whole(step)
            finally:
                with self._lock:
                    self.running -= 1

        monkeypatch.setattr(Step, "load", load)


@pytest.fixture
def loads(monkeypatch: pytest.MonkeyPatch) -> Loads:
    return Loads(monkeypatch)


@pytest.fixture
def threads() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(4, thread_name_prefix="lakelog-test") as made:
        yield made


def first_of(batches: list[pa.RecordBatch]) -> int:
    return batches[0].column("offset")[0].as_py()


def test_all_rows_come_in_order_and_a_few_steps_are_decoded_at_once(
    place: Place, loads: Loads, threads: ThreadPoolExecutor
):
    begun = place.begin()

    async def read() -> None:
        ahead = Ahead(begun, threads, PATIENCE_S)
        await ahead.begin()
        rows = 0
        async for batches in ahead.steps():
            assert first_of(batches) == rows
            rows += sum(batch.num_rows for batch in batches)
            assert loads.begun <= rows // ROW_GROUP + 3
        assert rows == begun.count

    asyncio.run(read())
    assert 1 <= loads.most <= 3
    assert place.room.take()
    place.room.give_back()


def test_what_is_at_hand_comes_first_and_is_not_waited_for(place: Place, loads: Loads, threads: ThreadPoolExecutor):
    at_hand = pa.record_batch({"offset": pa.array([-1], pa.int64())})
    begun = place.begin([at_hand])
    loads.gate.clear()

    async def read() -> None:
        ahead = Ahead(begun, threads, PATIENCE_S)
        await ahead.begin()
        steps = ahead.steps()
        assert await anext(steps) == [at_hand]
        loads.gate.set()
        assert first_of(await anext(steps)) == 0
        await steps.aclose()

    asyncio.run(read())
    begun.later.close()
    assert place.room.take()
    place.room.give_back()


def test_who_stops_early_waits_for_what_is_being_decoded_and_nothing_else_is(
    place: Place, loads: Loads, threads: ThreadPoolExecutor
):
    begun = place.begin()

    async def read() -> None:
        ahead = Ahead(begun, threads, PATIENCE_S)
        await ahead.begin()
        steps = ahead.steps()
        await anext(steps)
        await steps.aclose()
        assert loads.running == 0

    asyncio.run(read())
    begun.later.close()
    assert loads.begun <= 4
    assert place.room.take()
    place.room.give_back()


@pytest.mark.parametrize("failing", [0, 2])
def test_an_error_comes_in_its_place_and_no_rows_behind_it(
    place: Place, monkeypatch: pytest.MonkeyPatch, threads: ThreadPoolExecutor, failing: int
):
    begun = place.begin()
    whole = Step.load

    def load(step: Step) -> list[pa.RecordBatch]:
        batches = whole(step)
        if first_of(batches) == failing * ROW_GROUP:
            raise ZeroDivisionError
        return batches

    monkeypatch.setattr(Step, "load", load)
    seen: list[int] = []

    async def read() -> None:
        ahead = Ahead(begun, threads, PATIENCE_S)
        await ahead.begin()
        async for batches in ahead.steps():
            number, rest = divmod(first_of(batches), ROW_GROUP)
            assert not rest
            seen.append(number)

    with pytest.raises(ZeroDivisionError):
        asyncio.run(read())
    assert seen == list(range(failing))
    begun.later.close()
    assert place.room.take()
    place.room.give_back()


def test_a_disk_that_does_not_answer_is_not_waited_for_for_ever(
    place: Place, loads: Loads, threads: ThreadPoolExecutor
):
    begun = place.begin()
    loads.gate.clear()

    async def read() -> None:
        with pytest.raises(OutcomeUnknown):
            await Ahead(begun, threads, 0.01).begin()

    asyncio.run(read())
    loads.gate.set()
    begun.later.close()
    threads.shutdown()
    assert place.room.take()
    place.room.give_back()


def test_steps_that_no_thread_takes_any_more_let_their_file_go(place: Place, threads: ThreadPoolExecutor):
    begun = place.begin()
    threads.shutdown()

    async def read() -> Any:
        return await Ahead(begun, threads, PATIENCE_S).begin()

    with pytest.raises(RuntimeError):
        asyncio.run(read())
    begun.later.close()
    assert place.room.take()
    place.room.give_back()


def test_what_is_held_at_once_is_less_than_a_large_answer(place: Place):
    begun = place.begin()
    assert begun.size / 4 < held_at_once(begun) < begun.size * 0.6
    begun.later.close()
