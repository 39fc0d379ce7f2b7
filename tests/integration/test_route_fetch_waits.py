"""A read at the end of a partition waits for the next record, is woken by its append, and leaves nothing behind."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from typing import Any

import httpx
import pytest

from delta_log import Record
from tests.support.asgi_call import AsgiCall, soon
from tests.support.http_app import HttpApp
from tests.support.reading import RECORDS, Reads, fill, nothing_is_left, offsets, waiters


@pytest.fixture
def orders(app: HttpApp) -> HttpApp:
    app.log.create_topic("orders", 2)
    return app


def test_a_read_at_the_end_waits_for_the_next_record_and_for_nothing_else(
    orders: HttpApp, monkeypatch: pytest.MonkeyPatch
):
    fill(orders, 1)
    reads = Reads(monkeypatch)

    async def polling() -> None:
        loop = asyncio.get_running_loop()
        began = loop.time()
        async with AsgiCall(orders.asgi, "GET", f"{RECORDS}?offset=1&timeout=60000") as call:
            await soon(lambda: waiters(orders) == 1)
            assert orders.tier.watch.polling.open == 1
            assert orders.tier.read_room.held == 0, "who waits holds nothing"
            before = reads.count
            await asyncio.sleep(0.3)
            assert (reads.count, orders.log.offsets("orders", 0).end_offset) == (before, 1)
            assert not call.pieces_made
            await orders.log.append_async("orders", [Record(b"1", partition=1)])
            await asyncio.sleep(0.05)
            assert reads.count == before, "another partition is nothing to it"
            await orders.log.append_async("orders", [Record(b"2", partition=0)])
            assert json.loads(await call.body())["value"] == 2
            assert loop.time() - began < 20
        await nothing_is_left(orders)

    orders.run(polling())


def test_a_wait_ends_with_its_time(orders: HttpApp):
    fill(orders, 1)
    answer = orders.get(f"{RECORDS}?offset=latest&timeout=50")
    assert offsets(answer) == []
    assert answer.headers["lakelog-next-offset"] == "1"
    orders.run(nothing_is_left(orders))


def test_a_wait_is_clamped_to_what_the_server_allows(http_place: Any):
    with HttpApp(http_place.open(), max_poll_ms=50) as app:
        app.log.create_topic("orders")
        assert offsets(app.get(f"{RECORDS}?timeout=60000")) == []


def test_a_wait_ends_when_its_topic_is_deleted(orders: HttpApp):
    async def polling() -> None:
        async with AsgiCall(orders.asgi, "GET", f"{RECORDS}?timeout=60000") as call:
            await soon(lambda: waiters(orders) == 1)
            await orders.tier.in_thread(orders.log.delete_topic, "orders")
            assert (await call.head())[0] == 404
        await nothing_is_left(orders)

    orders.run(polling())


def test_a_wait_ends_when_the_server_stops(orders: HttpApp):
    async def polling() -> None:
        async with AsgiCall(orders.asgi, "GET", f"{RECORDS}?timeout=60000") as call:
            await soon(lambda: waiters(orders) == 1)
            orders.tier.closing.set()
            assert (await call.head())[0] == 200
            assert await call.body() == b""
        async with AsgiCall(orders.asgi, "GET", f"{RECORDS}?timeout=60000") as call:
            assert await call.body() == b"", "nobody begins to wait any more"
        await nothing_is_left(orders)

    orders.run(polling())


def test_a_wait_ends_when_its_client_goes_away(orders: HttpApp):
    async def polling() -> None:
        async with AsgiCall(orders.asgi, "GET", f"{RECORDS}?timeout=60000") as call:
            await soon(lambda: waiters(orders) == 1)
            call.leave()
            await call.ended()
        await nothing_is_left(orders)

    orders.run(polling())


def test_a_wait_that_is_cancelled_leaves_nothing(orders: HttpApp):
    async def polling() -> None:
        call = AsgiCall(orders.asgi, "GET", f"{RECORDS}?timeout=60000")
        await call.__aenter__()
        await soon(lambda: waiters(orders) == 1)
        call.task.cancel()
        await asyncio.wait({call.task})
        await nothing_is_left(orders)

    orders.run(polling())


def test_one_append_wakes_all_who_wait_for_it(orders: HttpApp):
    async def crowd() -> Sequence[httpx.Response]:
        polls = [asyncio.create_task(orders.client.get(f"{RECORDS}?timeout=60000")) for _ in range(200)]
        await soon(lambda: waiters(orders) == 200)
        assert orders.tier.watch.polling.open == 200
        await orders.log.append_async("orders", [Record(b"1", partition=0)])
        return await asyncio.gather(*polls)

    assert {answer.text.count("\n") for answer in orders.run(crowd())} == {1}
    orders.run(nothing_is_left(orders))
