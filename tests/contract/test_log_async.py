"""Appending from event loops: the same laws, whatever becomes of the loop."""

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pytest

from delta_log import Appended, Log, ProducerStamp, Record
from delta_log.model.errors import Closed, InvalidRecord, StorageRefused, UnknownPartition, UnknownTopic
from delta_log.records.prepare import prepare_records
from tests.support.logs import Place, eventually, everything, offsets_of, values_of


def offsets(answers: list[Appended]) -> list[int]:
    return sorted(offset for answer in answers for offset in answer.offsets())


def test_tasks_at_once_share_groups_and_get_runs_of_their_own(log: Log):
    log.create_topic("t")

    async def work() -> list[Appended]:
        return await asyncio.gather(*(log.append_async("t", [Record(b"v")] * (1 + i % 3)) for i in range(200)))

    answers = asyncio.run(work())
    assert offsets(answers) == list(range(399))
    assert offsets_of(everything(log, "t")) == list(range(399))
    assert all(answer.offsets() == list(range(answer.offsets()[0], answer.offsets()[-1] + 1)) for answer in answers)


def test_a_task_appends_arrow(log: Log):
    log.create_topic("t")
    table = pa.table({"value": pa.array([b"1", b"2"])})
    assert asyncio.run(log.append_arrow_async("t", table)).offsets() == [0, 1]
    assert asyncio.run(log.append_arrow_async("t", table.to_batches()[0])).offsets() == [2, 3]


def test_a_loop_queues_up_in_one_step_where_it_need_not_wait_before(log: Log):
    log.create_topic("t", 2)

    async def work() -> list[Appended]:
        first = await log.append_async("t", [Record(b"0", partition=0)])
        waiting = [log.queue_up("t", [Record(b"1", partition=0)]), log.queue_up("t", [Record(b"2", partition=0)] * 3)]
        waiting.append(log.queue_up("t", pa.table({"value": [b"3"], "partition": [0]})))
        assert all(waiting), "the loop had to wait"
        assert log.queue_up("t", [Record(b"4")] * 5000) is None, "so many are not prepared by a loop"
        assert log.queue_up("nowhere", [Record(b"5")]) is None
        with pytest.raises(InvalidRecord):
            log.queue_up("t", [])
        with pytest.raises(UnknownPartition):
            log.queue_up("t", [Record(b"6", partition=2)])
        return [first, *[await one for one in waiting if one is not None]]

    answers = asyncio.run(work())
    assert [answer.offsets() for answer in answers] == [[0], [1], [2, 3, 4], [5]]
    assert sorted(values_of(log, "t")) == [b"0", b"1", b"2", b"2", b"2", b"3"]


def test_threads_and_loops_mix(log: Log):
    log.create_topic("t")

    async def tasks() -> list[Appended]:
        async def one() -> list[Appended]:
            return [await log.append_async("t", [Record(b"a")]) for _ in range(20)]

        return [answer for some in await asyncio.gather(*(one() for _ in range(8))) for answer in some]

    def thread() -> list[Appended]:
        return [log.append("t", [Record(b"t")]) for _ in range(40)]

    with ThreadPoolExecutor(6) as pool:
        running = [pool.submit(asyncio.run, tasks()) for _ in range(2)] + [pool.submit(thread) for _ in range(4)]
        answers = [answer for done in running for answer in done.result()]
    assert offsets(answers) == list(range(2 * 160 + 4 * 40))
    assert offsets_of(everything(log, "t")) == list(range(480))


def test_what_cannot_be_stored_is_told_to_its_own_task(log: Log):
    log.create_topic("t")
    log.create_topic("gone")

    async def work() -> list[object]:
        return await asyncio.gather(
            log.append_async("t", [Record(b"0")]),
            log.append_async("t", []),
            log.append_async("u", [Record(b"v")]),
            log.append_async("t", [Record(b"1")]),
            return_exceptions=True,
        )

    first, empty, unknown, second = asyncio.run(work())
    assert isinstance(first, Appended)
    assert isinstance(second, Appended)
    assert isinstance(empty, InvalidRecord)
    assert isinstance(unknown, UnknownTopic)
    assert values_of(log, "t") == [b"0", b"1"]


class SlowJournal:
    """Lets a test stop the journal in the middle of a write."""

    def __init__(self, log: Log) -> None:
        self.inside, self.go_on = threading.Event(), threading.Event()
        self._real = log._running.journal.append
        log._running.journal.append = self  # type: ignore[method-assign, assignment]

    def __call__(self, frames: object, payloads: object) -> object:
        self.inside.set()
        assert self.go_on.wait(20)
        return self._real(frames, payloads)  # type: ignore[arg-type]


def test_a_loop_that_ends_in_the_middle_of_a_write_takes_nothing_with_it(log: Log):
    """Its tasks are cancelled, the loop is closed; the record is stored, and everyone else goes on."""
    log.create_topic("t")
    slow = SlowJournal(log)

    async def give_up() -> None:
        asyncio.get_running_loop().create_task(log.append_async("t", [Record(b"0")]))
        while not slow.inside.is_set():  # noqa: ASYNC110 - an event of threads
            await asyncio.sleep(0.001)

    asyncio.run(give_up())
    slow.go_on.set()
    assert log.append("t", [Record(b"1")]).offsets() == [1]
    assert asyncio.run(log.append_async("t", [Record(b"2")])).offsets() == [2]
    assert values_of(log, "t") == [b"0", b"1", b"2"]


def test_a_loop_that_ends_while_its_requests_wait_does_not_take_the_lead_with_it(log: Log):
    log.create_topic("t")
    slow = SlowJournal(log)
    turns = log._running.writer.turns
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(log.append, "t", [Record(b"0")])
        assert slow.inside.wait(20)

        async def give_up() -> None:
            asyncio.get_running_loop().create_task(log.append_async("t", [Record(b"1")]))
            while not turns._queue:  # noqa: ASYNC110 - filled by another task
                await asyncio.sleep(0.001)

        asyncio.run(give_up())
        last = pool.submit(log.append, "t", [Record(b"2")])
        eventually(lambda: len(turns._queue) == 2)
        slow.go_on.set()
        assert first.result(20).offsets() == [0]
        assert last.result(20).offsets() == [2]
    assert values_of(log, "t") == [b"0", b"1", b"2"]


def test_a_task_that_is_cancelled_is_stored_all_the_same(log: Log):
    log.create_topic("t")
    slow = SlowJournal(log)

    async def cancel_one() -> Appended:
        tasks = [asyncio.ensure_future(log.append_async("t", [Record(b"%d" % i)])) for i in range(3)]
        while not slow.inside.is_set():  # noqa: ASYNC110 - an event of threads
            await asyncio.sleep(0.001)
        tasks[0].cancel()
        slow.go_on.set()
        with pytest.raises(asyncio.CancelledError):
            await tasks[0]
        return await tasks[2]

    assert asyncio.run(cancel_one()).offsets() == [2]
    assert values_of(log, "t") == [b"0", b"1", b"2"]


def test_a_loop_may_call_what_waits_for_its_own_requests(log: Log):
    """It blocks its loop for a while, as every call does; it must not do so for ever."""
    log.create_topic("t")

    async def work() -> list[Appended]:
        tasks = [asyncio.ensure_future(log.append_async("t", [Record(b"%d" % i)])) for i in range(3)]
        await asyncio.sleep(0)
        log.add_partitions("t", 2)
        own = log.append("t", [Record(b"own", partition=1)])
        return [*(await asyncio.gather(*tasks)), own]

    assert [answer.offsets() for answer in asyncio.run(asyncio.wait_for(work(), 20))] == [[0], [1], [2], [0]]


def test_a_failed_write_is_told_to_every_task_and_the_next_one_succeeds(log: Log):
    log.create_topic("t")
    real = log._running.journal.append

    def refuse(*_: object) -> None:
        log._running.journal.append = real  # type: ignore[method-assign]
        raise StorageRefused("the journal", "a test")

    async def work() -> list[object]:
        tasks = [asyncio.ensure_future(log.append_async("t", [Record(b"v")])) for _ in range(3)]
        return await asyncio.gather(*tasks, return_exceptions=True)

    log._running.journal.append = refuse  # type: ignore[method-assign, assignment]
    answers = asyncio.run(work())
    assert any(isinstance(answer, StorageRefused) for answer in answers)
    stored = [answer for answer in answers if isinstance(answer, Appended)]
    assert offsets(stored) == list(range(len(stored)))
    assert asyncio.run(log.append_async("t", [Record(b"v")])).offsets() == [len(stored)]


def test_the_same_request_from_a_task_and_a_thread_is_stored_once(log: Log):
    log.create_topic("t")
    stamp = ProducerStamp("p", 0, 0)

    def by_task() -> Appended:
        return asyncio.run(log.append_async("t", [Record(b"v")], producer=stamp))

    with ThreadPoolExecutor(8) as pool:
        running = [pool.submit(by_task) for _ in range(4)]
        running += [pool.submit(log.append, "t", [Record(b"v")], producer=stamp) for _ in range(4)]
        answers = [done.result() for done in running]
    assert [answer.offsets() for answer in answers] == [[0]] * 8
    assert sorted(answer.duplicate for answer in answers) == [False] + [True] * 7
    assert values_of(log, "t") == [b"v"]


def test_a_closed_log_says_so_to_tasks(place: Place):
    log = place.open()
    log.create_topic("t")
    place.close()
    with pytest.raises(Closed):
        asyncio.run(log.append_async("t", [Record(b"v")]))


def test_requests_that_wait_when_the_log_closes_are_answered(place: Place):
    log = place.open()
    log.create_topic("t")
    slow = SlowJournal(log)

    async def work() -> list[object]:
        tasks = [asyncio.ensure_future(log.append_async("t", [Record(b"v")]))]
        while not slow.inside.is_set():  # noqa: ASYNC110 - an event of threads
            await asyncio.sleep(0.001)
        closing = asyncio.get_running_loop().run_in_executor(None, log.close)
        while not log._running.writer.turns._queue:  # noqa: ASYNC110 - filled by a thread
            await asyncio.sleep(0.001)
        live = log._running.catalog.live("t")
        request = prepare_records(live.rules, [Record(b"late")], first_null=0, now_ms=1)
        tasks.append(asyncio.ensure_future(log._door.append_async(live, request)))
        await asyncio.sleep(0)
        slow.go_on.set()
        answers = await asyncio.gather(*tasks, return_exceptions=True)
        await closing
        return list(answers)

    first, late = asyncio.run(work())
    assert isinstance(first, Appended)
    assert isinstance(late, Closed)
    place.log = None
    assert values_of(place.open(), "t") == [b"v"]
