"""What is the AsyncProducer's own: futures of a loop, tasks that share it, and a loop that ends."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from lakelog import AsyncProducer
from lakelog.foundation import errors
from lakelog.transport.exchange import Outcome, Request
from tests.support.client_wire import DEADLINE_S, SETTINGS, AsyncWire, store_all

Act = Callable[[Request], Outcome | None]


def run(main: Coroutine[Any, Any, Any]) -> Any:
    async def in_time() -> Any:
        asyncio.get_running_loop().slow_callback_duration = DEADLINE_S  # it would be told that a machine is busy
        async with asyncio.timeout(DEADLINE_S):
            return await main

    return asyncio.run(in_time(), debug=True)


def test_a_cancelled_future_is_the_business_of_who_cancelled_it_and_the_record_goes_its_way():
    async def main() -> None:
        wire = AsyncWire()
        async with AsyncProducer(SETTINGS, transport=wire) as producer:
            future = await producer.send("t", b"x")
            future.cancel()
            (await wire.take()).answer_stored()
            await producer.flush()
            assert future.cancelled()

    run(main())


def test_many_tasks_send_through_one_producer_each_in_its_order():
    async def main() -> None:
        async with AsyncProducer(SETTINGS | {"buffer.memory": 3_000}, transport=AsyncWire(store_all())) as producer:

            async def send() -> list[int | None]:
                futures = [await producer.send("t", b"x" * 50) for _ in range(50)]
                return [(await future).offset for future in futures]

            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(send()) for _ in range(10)]
            found = [task.result() for task in tasks]
            assert all(offsets == sorted(offsets) for offsets in found)
            assert sorted(offset for offsets in found for offset in offsets) == list(range(500))

    run(main())


def test_who_sends_without_a_pause_lets_others_have_a_turn():
    async def main() -> None:
        turns = 0

        async def others() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        other = asyncio.create_task(others())
        async with AsyncProducer(SETTINGS | {"batch.size": 1_000}, transport=AsyncWire(store_all())) as producer:
            for _ in range(1_000):
                await producer.send("t", b"x" * 100)
            assert turns > 50
        other.cancel()

    run(main())


@pytest.mark.parametrize("linger_ms", [0, 60_000])
def test_a_loop_that_ends_without_a_close_leaves_no_future_unresolved_and_says_so(
    linger_ms: int, caplog: pytest.LogCaptureFixture
):
    caplog.set_level(logging.WARNING)
    futures: list[asyncio.Future[Any]] = []
    heard: list[Any] = []
    producer = AsyncProducer(SETTINGS | {"linger.ms": linger_ms}, transport=AsyncWire())

    async def main() -> None:
        futures.append(await producer.send("t", b"x", on_delivery=lambda error, _: heard.append(error)))
        futures.append(await producer.send("t", b"y"))

    run(main())
    assert [type(future.exception()) for future in futures] == [errors.OutcomeUnknown] * 2
    assert [type(error) for error in heard] == [errors.OutcomeUnknown]
    assert "2 records are not known to be stored" in caplog.text


def test_a_loop_that_ends_in_the_middle_of_a_close_leaves_no_future_unresolved():
    futures: list[asyncio.Future[Any]] = []
    producer = AsyncProducer(SETTINGS, transport=AsyncWire())

    async def main() -> None:
        futures.append(await producer.send("t", b"x"))
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(producer.close(), 0.01)

    run(main())
    assert isinstance(futures[0].exception(), errors.OutcomeUnknown)


def test_a_loop_that_ends_after_everything_was_delivered_has_nothing_to_say(caplog: pytest.LogCaptureFixture):
    async def main() -> None:
        producer = AsyncProducer(SETTINGS, transport=AsyncWire(store_all()))
        assert (await (await producer.send("t", b"x"))).offset == 0

    run(main())
    assert caplog.text == ""


def test_a_close_that_is_called_twice_at_once_ends_once():
    async def main() -> None:
        wire = AsyncWire()
        producer = AsyncProducer(SETTINGS, transport=wire)
        future = await producer.send("t", b"x")
        closes = [asyncio.create_task(producer.close()) for _ in range(2)]
        (await wire.take()).answer_stored()
        await asyncio.gather(*closes)
        assert future.result().offset == 0
        assert wire.closed

    run(main())


def test_a_callback_may_start_a_task_that_sends():
    async def main() -> None:
        sent: list[asyncio.Task[Any]] = []
        async with AsyncProducer(SETTINGS, transport=AsyncWire(store_all())) as producer:
            await producer.send(
                "t", b"x", on_delivery=lambda *_: sent.append(asyncio.create_task(producer.send("t", b"y")))
            )
            await producer.flush()
            assert (await (await sent[0])).offset == 1

    run(main())
