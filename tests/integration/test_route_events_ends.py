"""Streams of events that are silent, slow, many, or at their end: nothing is held for them, and nothing is left."""

from __future__ import annotations

import asyncio
import json

import pytest

from delta_log import Record
from ingest_api.routes.records import fetch_plan, follow
from tests.support.asgi_call import soon
from tests.support.following import ALL, Stream, append
from tests.support.http_app import HttpApp
from tests.support.reading import RECORDS, fill, nothing_is_left, waiters


@pytest.fixture
def orders(app: HttpApp) -> HttpApp:
    app.log.create_topic("orders", 2)
    return app


def test_a_topic_that_grows_too_wide_is_not_followed_any_more(orders: HttpApp, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(follow, "KEEP_ALIVE_S", 0.05)
    monkeypatch.setattr(fetch_plan, "MOST_MERGED", 2)

    async def following() -> None:
        async with Stream(orders, ALL) as stream:
            await stream.begun()
            await orders.tier.in_thread(orders.log.add_partitions, "orders", 3)
            await stream.to_the_end()
            assert stream.events[-1]["event"] == "error"
            assert json.loads(stream.events[-1]["data"])["error_code"] == 422

    orders.run(following())


def test_a_silent_stream_is_kept_alive(orders: HttpApp, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(follow, "KEEP_ALIVE_S", 0.02)

    async def following() -> None:
        async with Stream(orders, ALL) as stream:
            while stream.text.count(b": keep-alive\n\n") < 4:
                stream.text += await stream.call.piece() or b""
            assert stream.events == []

    orders.run(following())


@pytest.mark.parametrize("path", [RECORDS, ALL])
@pytest.mark.parametrize("anew", [False, True])
def test_the_end_of_a_topic_is_told_and_a_new_one_of_its_name_is_another(orders: HttpApp, path: str, anew: bool):
    fill(orders, 1)

    def delete() -> None:
        orders.log.delete_topic("orders")
        if anew:
            orders.log.create_topic("orders", 2)
            orders.log.append("orders", [Record(b"%d" % n, partition=0) for n in range(9)])

    async def following() -> None:
        async with Stream(orders, path) as stream:
            await stream.until(1)
            await orders.tier.in_thread(delete)
            await stream.to_the_end()
            assert stream.events[-1]["event"] == "error"
            told = json.loads(stream.events[-1]["data"])
            assert told["error_code"] == 40401
            assert len(stream.events) == 2, "nothing of the new topic"
        await nothing_is_left(orders)

    orders.run(following())


@pytest.mark.parametrize("path", [RECORDS, ALL])
def test_a_stream_ends_when_the_server_stops(orders: HttpApp, path: str):
    fill(orders, 1)

    async def following() -> None:
        async with Stream(orders, path) as stream:
            await stream.until(1)
            orders.tier.closing.set()
            await stream.to_the_end()
            assert len(stream.events) == 1
        await nothing_is_left(orders)

    orders.run(following())


@pytest.mark.parametrize("path", [RECORDS, ALL])
@pytest.mark.parametrize("when", ["waiting", "sending"])
def test_a_client_that_goes_away_leaves_nothing(orders: HttpApp, path: str, when: str):
    fill(orders, 300, size=2000)

    async def following() -> None:
        async with Stream(orders, f"{path}?offset=latest" if when == "waiting" else path) as stream:
            await stream.begun()
            if when == "waiting":
                idle = asyncio.create_task(stream.call.piece())
                await soon(lambda: waiters(orders) > 0)
            stream.call.leave()
            await stream.call.ended()
            if when == "waiting":
                assert await idle is None
        await nothing_is_left(orders)

    orders.run(following())


def test_a_slow_follower_holds_little(orders: HttpApp):
    """Of a hundred partitions that are full, one turn is read, and the next when it was taken."""
    orders.log.create_topic("wide", 100)
    orders.log.append("wide", [Record(b"x" * 10_000, partition=n % 100) for n in range(300)])

    async def following() -> None:
        counts = orders.tier.watch.topics
        async with Stream(orders, "/topics/wide/records") as stream:
            await stream.begun()
            await stream.until(1)
            await asyncio.sleep(0.1)
            assert counts["wide"].bytes_out <= 2 * 64 * 1024 + 10_100
            await stream.until(300)
            assert len(set(stream.places)) == 300
            assert len({partition for partition, _ in stream.places[:150]}) >= 50, "each has its turn"

    orders.run(following())


def test_one_append_reaches_every_follower(orders: HttpApp):
    async def following() -> None:
        streams = [Stream(orders, ALL) for _ in range(50)]
        for stream in streams:
            await stream.__aenter__()
            await stream.begun()
        pending = [asyncio.create_task(stream.until(2)) for stream in streams]
        await soon(lambda: waiters(orders) == 100)
        await append(orders, 0, b"1")
        await append(orders, 1, b"2")
        await asyncio.gather(*pending)
        for stream in streams:
            assert sorted(stream.places) == [(0, 0), (1, 0)]
            await stream.__aexit__(None, None, None)
        await nothing_is_left(orders)

    orders.run(following())
