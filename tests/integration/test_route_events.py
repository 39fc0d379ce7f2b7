"""Following as server-sent events: every record once and in order, also by who comes back."""

from __future__ import annotations

import asyncio
import json

import pytest

from delta_log import Record
from ingest_api.routes.records import follow
from tests.support.asgi_call import soon
from tests.support.following import ALL, EVENTS, Stream, append
from tests.support.http_app import HttpApp, error_code
from tests.support.reading import RECORDS, Reads, fill, nothing_is_left, waiters


@pytest.fixture
def orders(app: HttpApp) -> HttpApp:
    app.log.create_topic("orders", 2)
    return app


def test_one_partition_is_followed_from_its_first_record_on(orders: HttpApp):
    fill(orders, 2)

    async def following() -> None:
        async with Stream(orders, RECORDS) as stream:
            status, fields = await stream.call.head()
            assert status == 200
            assert fields["content-type"] == "text/event-stream"
            assert fields["cache-control"] == "no-store"
            assert "content-length" not in fields
            await stream.until(2)
            await append(orders, 1, b"elsewhere")
            await append(orders, 0, b"2")
            await stream.until(3)
            assert [event["id"] for event in stream.events] == ["0:1", "0:2", "0:3"]
            assert json.loads(stream.events[2]["data"])["value"] == 2
            assert orders.tier.watch.polling.open == 1
        await nothing_is_left(orders)

    orders.run(following())


@pytest.mark.parametrize(
    ("query", "first"), [("?offset=1", 1), ("?offset=latest", 3), ("?timestamp=1", 0), ("?offset=earliest", 0)]
)
def test_a_follower_begins_where_it_is_told(orders: HttpApp, query: str, first: int):
    fill(orders, 3)

    async def following() -> None:
        async with Stream(orders, RECORDS + query) as stream:
            await stream.begun()
            assert stream.last_id == f"0:{first}"
            await append(orders, 0, b"3")
            await stream.until(1)
            assert stream.places[0] == (0, first)

    orders.run(following())


def test_an_append_is_delivered_at_once_and_an_idle_follower_does_nothing(
    orders: HttpApp, monkeypatch: pytest.MonkeyPatch
):
    reads = Reads(monkeypatch)

    async def following() -> None:
        loop = asyncio.get_running_loop()
        async with Stream(orders, ALL) as stream:
            await stream.begun()
            idle = asyncio.create_task(stream.until(1))
            await soon(lambda: waiters(orders) == 2)
            before = reads.count
            await asyncio.sleep(0.3)
            assert reads.count == before
            began = loop.time()
            await append(orders, 1, b"1")
            await idle
            assert loop.time() - began < 50
            assert stream.places == [(1, 0)]

    orders.run(following())


def test_a_follower_that_comes_back_goes_on_behind_its_last_event(orders: HttpApp):
    fill(orders, 5)

    async def following() -> None:
        async with Stream(orders, RECORDS) as stream:
            await stream.until(3)
            last = stream.events[2]["id"]
        async with Stream(orders, f"{RECORDS}?offset=0", last) as stream:
            await stream.until(2)
            assert stream.places == [(0, 3), (0, 4)]

    orders.run(following())


def test_a_follower_that_saw_nothing_yet_comes_back_to_where_it_was(orders: HttpApp):
    fill(orders, 2)

    async def following() -> None:
        async with Stream(orders, f"{ALL}?offset=latest") as stream:
            await stream.begun()
            last = stream.last_id
            assert last == "0:2,1:0"
        await append(orders, 0, b"meanwhile")
        async with Stream(orders, f"{ALL}?offset=latest", last) as stream:
            await stream.until(1)
            assert stream.places == [(0, 2)]

    orders.run(following())


def test_a_follower_of_all_comes_back_without_a_gap_or_a_repeat(orders: HttpApp):
    """Cut off after every single event."""
    orders.log.append("orders", [Record(b"%d" % n, partition=n % 2) for n in range(12)])

    async def following() -> None:
        seen: list[tuple[int, int]] = []
        last = None
        for _ in range(12):
            async with Stream(orders, ALL, last) as stream:
                await stream.until(1)
                seen.append(stream.places[0])
                last = stream.events[0]["id"]
        assert sorted(seen) == [(partition, offset) for partition in (0, 1) for offset in range(6)]

    orders.run(following())


@pytest.mark.parametrize("path", [RECORDS, ALL])
def test_who_was_away_while_records_left_goes_on_behind_them(orders: HttpApp, path: str):
    fill(orders, 6)
    orders.log.delete_records("orders", 0, 4)

    async def following() -> None:
        async with Stream(orders, path, "0:2,1:0") as stream:
            await stream.until(2)
            assert stream.places == [(0, 4), (0, 5)]

    orders.run(following())


def test_who_reads_so_slowly_that_records_leave_goes_on_behind_them(orders: HttpApp):
    fill(orders, 400, size=2000)

    async def following() -> None:
        async with Stream(orders, RECORDS) as stream:
            await stream.until(1)
            await orders.tier.in_thread(orders.log.delete_records, "orders", 0, 390)
            while stream.places[-1] != (0, 399):
                stream.text += await stream.call.piece() or b""
        offsets = [offset for _, offset in stream.places]
        assert offsets == sorted(set(offsets))
        assert set(range(390, 400)) < set(offsets)
        assert len(offsets) < 200

    orders.run(following())


@pytest.mark.parametrize("last", ["x", "0", "0:-1", "0:1,0:2", "0:1;1:2", "0:9223372036854775808", "00:1", "0:1,"])
@pytest.mark.parametrize("path", [RECORDS, ALL])
def test_an_id_that_is_none_is_refused(orders: HttpApp, last: str, path: str):
    assert error_code(orders.get(path, headers=EVENTS | {"last-event-id": last})) == (400, 400)


@pytest.mark.parametrize("path", [RECORDS, ALL])
def test_an_id_behind_the_end_is_out_of_range(orders: HttpApp, path: str):
    answer = orders.get(path, headers=EVENTS | {"last-event-id": "0:1,1:0"})
    assert error_code(answer) == (416, 41601)


def test_an_id_of_other_partitions_says_nothing_of_this_one(orders: HttpApp):
    fill(orders, 3)

    async def following() -> None:
        async with Stream(orders, f"{RECORDS}?offset=1", "1:0,7:5") as stream:
            await stream.until(1)
            assert stream.places[0] == (0, 1)

    orders.run(following())


def test_new_partitions_are_followed_from_their_first_record_on(orders: HttpApp, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(follow, "KEEP_ALIVE_S", 0.05)

    async def following() -> None:
        async with Stream(orders, f"{ALL}?offset=latest") as stream:
            await stream.begun()
            await orders.tier.in_thread(orders.log.add_partitions, "orders", 3)
            await append(orders, 2, b"new")
            await stream.until(1)
            assert stream.places == [(2, 0)]
            assert stream.events[0]["id"] == "0:0,1:0,2:1"
            await append(orders, 2, b"newer")
            await append(orders, 0, b"old")
            await stream.until(3)
            assert sorted(stream.places) == [(0, 0), (2, 0), (2, 1)]

    orders.run(following())


def test_partitions_that_were_added_while_one_was_away_begin_at_their_first_record(orders: HttpApp):
    fill(orders, 1)
    orders.log.add_partitions("orders", 3)
    orders.log.append("orders", [Record(b"x", partition=2)])

    async def following() -> None:
        async with Stream(orders, f"{ALL}?offset=latest", "0:1,1:0") as stream:
            await stream.until(1)
            assert stream.places == [(2, 0)]

    orders.run(following())


def test_events_show_keys_and_values_as_asked(orders: HttpApp):
    orders.log.append("orders", [Record(b"1", key=b"k", partition=0)])

    async def following() -> None:
        async with Stream(orders, f"{RECORDS}?decode=base64") as stream:
            await stream.until(1)
            shown = json.loads(stream.events[0]["data"])
            assert (shown["key"], shown["value"]) == ("aw==", "MQ==")

    orders.run(following())
