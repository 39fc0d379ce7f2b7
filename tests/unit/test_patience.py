"""Who waits too long is told that nobody knows; whoever is cancelled by others is cancelled."""

from __future__ import annotations

import asyncio

import pytest

from ingest_api.web.request_timeout import RequestTimeout
from tests.support.loops import in_loop

SHORT_S = 0.02


@in_loop
async def test_what_comes_in_time_is_given():
    async def quick() -> int:
        await asyncio.sleep(0)
        return 7

    patience = RequestTimeout(60)
    assert await patience.wait(quick()) == 7


@in_loop
async def test_an_error_that_comes_in_time_is_raised():
    async def failing() -> int:
        raise ValueError

    with pytest.raises(ValueError):  # noqa: PT011 - it is ours
        await RequestTimeout(60).wait(failing())


@in_loop
async def test_what_does_not_come_is_given_up_on_and_cancelled():
    ended = asyncio.Event()

    async def endless() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    with pytest.raises(TimeoutError):
        await RequestTimeout(SHORT_S).wait(endless())
    assert ended.is_set()
    task = asyncio.current_task()
    assert task is not None
    assert not task.cancelling()


@in_loop
async def test_each_has_the_same_time_and_its_own_deadline():
    patience = RequestTimeout(0.1)
    loop = asyncio.get_running_loop()

    async def one(later: float) -> float:
        await asyncio.sleep(later)
        began = loop.time()
        with pytest.raises(TimeoutError):
            await patience.wait(asyncio.Event().wait())
        return loop.time() - began

    assert min(await asyncio.gather(one(0), one(0.03), one(0.06), one(0.2))) >= 0.09


@in_loop
async def test_one_timer_serves_all_who_come_and_go():
    patience = RequestTimeout(60)
    for _ in range(100):
        await patience.wait(asyncio.sleep(0))
    timers = [handle for handle in asyncio.get_running_loop()._scheduled if "_sweep" in repr(handle)]  # type: ignore[attr-defined]
    assert len(timers) == 1


@in_loop
async def test_who_comes_after_everybody_left_has_a_deadline_too():
    patience = RequestTimeout(SHORT_S)
    await patience.wait(asyncio.sleep(0))
    await asyncio.sleep(3 * SHORT_S)
    with pytest.raises(TimeoutError):
        await patience.wait(asyncio.Event().wait())


@in_loop
async def test_a_cancellation_by_others_stays_one():
    patience = RequestTimeout(60)
    task = asyncio.create_task(patience.wait(asyncio.Event().wait()))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


@in_loop
async def test_a_cancellation_by_others_at_the_deadline_stays_one():
    patience, loop = RequestTimeout(60), asyncio.get_running_loop()
    task = asyncio.create_task(patience.wait(asyncio.Event().wait()))
    await asyncio.sleep(0)
    patience._due[task] = loop.time()
    patience._sweep(loop)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
