"""Waking tasks from other threads: everybody is woken, and the loop is called no oftener than it must be."""

from __future__ import annotations

import asyncio
import threading

import pytest

from ingest_api.web.shutdown import Closing
from ingest_api.web.wakeups import LoopNotifier, wait_for_any
from tests.support.loops import in_loop


@in_loop
async def test_the_loop_is_called_once_for_all_who_are_woken_together(monkeypatch: pytest.MonkeyPatch):
    loop, bell = asyncio.get_running_loop(), LoopNotifier()
    bell.bind()
    calls: list[object] = []
    whole = loop.call_soon_threadsafe

    def counted(*given: object) -> object:
        calls.append(given)
        return whole(*given)  # type: ignore[arg-type]

    monkeypatch.setattr(loop, "call_soon_threadsafe", counted)
    woken: list[int] = []

    def ring(numbers: range) -> None:
        for number in numbers:
            bell.notify(lambda number=number: woken.append(number))

    thread = threading.Thread(target=ring, args=(range(1000),))
    thread.start()
    thread.join()  # the loop cannot run meanwhile
    assert len(calls) == 1
    await asyncio.sleep(0)
    assert woken == list(range(1000))
    ring(range(2))
    await asyncio.sleep(0)
    assert len(woken) == 1002
    assert len(calls) == 2


@in_loop
async def test_no_wake_is_lost_however_many_threads_ring_while_the_loop_runs():
    bell = LoopNotifier()
    bell.bind()
    woken: list[int] = []
    everybody = asyncio.Event()

    def wake() -> None:
        woken.append(1)
        if len(woken) == 4000:
            everybody.set()

    threads = [threading.Thread(target=lambda: [bell.notify(wake) for _ in range(1000)]) for _ in range(4)]
    for thread in threads:
        thread.start()
    async with asyncio.timeout(20):
        await everybody.wait()
    for thread in threads:
        thread.join()


@in_loop
async def test_a_wait_ends_with_the_first_of_its_ends_or_with_its_time():
    loop = asyncio.get_running_loop()
    done = loop.create_future()
    done.set_result(None)
    never = loop.create_future()
    closing = Closing()
    began = loop.time()
    await wait_for_any(60, (never, done))
    loop.call_later(0.01, closing.set)
    await wait_for_any(60, (never, closing))
    await wait_for_any(60, (never, closing))
    assert loop.time() - began < 20
    await wait_for_any(0.01, (never,))
    await wait_for_any(0, ())
    assert not never.done()
    assert not never._callbacks  # type: ignore[attr-defined]
    assert not closing._wakes


@in_loop
async def test_a_wait_that_is_cancelled_takes_nobody_with_it():
    never = asyncio.get_running_loop().create_future()
    waiting = asyncio.create_task(wait_for_any(60, (never,)))
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert not never.done()
    assert not never._callbacks  # type: ignore[attr-defined]
