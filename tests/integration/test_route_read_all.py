"""Reading all partitions of a topic as one: what there is, within one budget, and where to go on."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import httpx
import pytest

from delta_log import Record
from ingest_api.routes.records import fetch_plan
from tests.support.asgi_call import AsgiCall, soon
from tests.support.http_app import HttpApp, error_code
from tests.support.logs import NOW
from tests.support.reading import nothing_is_left, waiters

ALL = "/topics/orders/records"


@pytest.fixture
def orders(app: HttpApp) -> HttpApp:
    app.log.create_topic("orders", 3)
    return app


def fill(app: HttpApp, *counts: int) -> None:
    for partition, count in enumerate(counts):
        if count:
            app.log.append("orders", [Record(b"%d" % n, partition=partition, timestamp=NOW + n) for n in range(count)])


def places(answer: httpx.Response) -> list[tuple[int, int]]:
    assert answer.status_code == 200, answer.text
    return [(line["partition"], line["offset"]) for line in map(json.loads, answer.text.splitlines())]


def test_all_partitions_are_given_each_in_its_order(orders: HttpApp):
    fill(orders, 3, 0, 2)
    answer = orders.get(ALL)
    assert sorted(places(answer)) == [(0, 0), (0, 1), (0, 2), (2, 0), (2, 1)]
    assert answer.headers["content-type"] == "application/x-ndjson"
    assert answer.headers["lakelog-next-offsets"] == "0:3,1:0,2:2"
    assert answer.headers["cache-control"] == "no-store"
    assert places(orders.get(ALL + "/")) == places(answer)


def test_a_reader_goes_on_where_it_was_and_misses_nothing(orders: HttpApp):
    fill(orders, 30, 1, 17)
    seen: list[tuple[int, int]] = []
    query = ""
    for _ in range(100):
        answer = orders.get(f"{ALL}?max_records=5{query}")
        found = places(answer)
        assert len(found) <= 5
        seen += found
        query = f"&from={answer.headers['lakelog-next-offsets']}"
        if not found:
            break
    assert sorted(seen) == [(partition, n) for partition, count in enumerate((30, 1, 17)) for n in range(count)]
    for partition in range(3):
        assert [offset for of, offset in seen if of == partition] == sorted(o for of, o in seen if of == partition)


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("offset=latest", []), ("offset=earliest", [(0, 0), (0, 1), (1, 0), (1, 1)]),
        (f"timestamp={NOW + 1}", [(0, 1), (1, 1)]), ("from=0:1", [(0, 1), (1, 0), (1, 1)]),
        ("from=0:1&offset=latest", [(0, 1)]), ("from=1:2,0:2", []), ("from=0:1%2C1:1", [(0, 1), (1, 1)]),
        (f"from=0:0&timestamp={NOW + 1}", [(0, 0), (0, 1), (1, 1)]), ("max_bytes=1", [(0, 0)]),
        ("max_records=0", [(0, 0)]), ("timeout=0", [(0, 0), (0, 1), (1, 0), (1, 1)]),
    ],
)  # fmt: skip
def test_a_read_begins_where_it_is_told(orders: HttpApp, query: str, found: list[tuple[int, int]]):
    fill(orders, 2, 2)
    assert sorted(places(orders.get(f"{ALL}?{query}"))) == found


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("offset=5", (422, 422)), ("offset=earliest&timestamp=0", (422, 422)), ("from=", (422, 422)),
        ("from=0", (422, 422)), ("from=0:-1", (422, 422)), ("from=0:1,0:2", (422, 422)), ("from=00:1", (422, 422)),
        ("from=0:9223372036854775808", (422, 422)), ("from=9999999999:0", (422, 422)), ("from=3:0", (404, 40402)),
        ("from=0:7", (416, 41601)), ("max_records=-1", (422, 422)), ("from=0:1&from=1:1", (422, 422)),
    ],
)  # fmt: skip
@pytest.mark.parametrize("accept", ["*/*", "text/event-stream"])
def test_what_cannot_be_a_beginning_is_refused(orders: HttpApp, query: str, expected: tuple[int, int], accept: str):
    fill(orders, 2)
    answer = orders.get(f"{ALL}?{query}", headers={"accept": accept})
    assert error_code(answer) == expected
    assert "Last-Event-ID" not in answer.text
    assert orders.tier.read_room.held == 0


def test_a_beginning_that_was_deleted_is_told_what_there_is(orders: HttpApp):
    fill(orders, 5)
    orders.log.delete_records("orders", 0, 2)
    answer = orders.get(f"{ALL}?from=0:1&max_records=1")
    assert error_code(answer) == (416, 41601)
    assert (answer.json()["log_start_offset"], answer.json()["end_offset"]) == (2, 5)
    assert places(orders.get(ALL)) == [(0, 2), (0, 3), (0, 4)]


@pytest.mark.parametrize(
    "accept", ["application/vnd.kafka.json.v2+json", "application/vnd.apache.arrow.stream", "text/html"]
)
def test_only_lines_and_events_are_merged(orders: HttpApp, accept: str):
    answer = orders.get(ALL, headers={"accept": accept})
    assert error_code(answer) == (406, 406)
    assert "application/x-ndjson, text/event-stream" in answer.json()["message"]


@pytest.mark.parametrize("accept", ["*/*", "text/event-stream"])
def test_an_unknown_topic_is_not_found(app: HttpApp, accept: str):
    assert error_code(app.get("/topics/unknown/records", headers={"accept": accept})) == (404, 40401)
    assert error_code(app.get("/topics/%2e%2e/records", headers={"accept": accept})) == (422, 422)


@pytest.mark.parametrize("accept", ["*/*", "text/event-stream"])
def test_more_partitions_than_an_id_can_name_are_not_merged(app: HttpApp, accept: str, monkeypatch: pytest.MonkeyPatch):
    app.log.create_topic("wide", fetch_plan.MOST_MERGED + 1)
    answer = app.get("/topics/wide/records", headers={"accept": accept})
    assert error_code(answer) == (422, 422)
    assert "at most 1000" in answer.json()["message"]


def test_where_the_widest_merged_read_is_fits_into_a_request_head(app: HttpApp):
    app.log.create_topic("wide", fetch_plan.MOST_MERGED)
    header = app.get("/topics/wide/records").headers["lakelog-next-offsets"]
    assert header.count(":") == 1000
    widest = len(header) + 1000 * (len(str(2**63 - 1)) - 1)
    assert widest < app.settings.max_head_bytes - 4096
    assert app.get(f"/topics/wide/records?from={header}").status_code == 200


def test_a_read_at_the_end_is_woken_by_any_partition(orders: HttpApp):
    fill(orders, 1)

    async def polling() -> None:
        loop = asyncio.get_running_loop()
        began = loop.time()
        async with AsgiCall(orders.asgi, "GET", f"{ALL}?offset=latest&timeout=60000") as call:
            await soon(lambda: waiters(orders) == 3)
            assert orders.tier.read_room.held == 0
            await orders.log.append_async("orders", [Record(b"9", partition=2)])
            assert json.loads(await call.body())["partition"] == 2
            assert (await call.head())[1]["lakelog-next-offsets"] == "0:1,1:0,2:1"
        assert loop.time() - began < 20
        await nothing_is_left(orders)

    orders.run(polling())


@pytest.mark.parametrize("how", ["deleted", "closing", "gone", "time"])
def test_a_wait_ends_and_leaves_nothing(orders: HttpApp, how: str):
    async def polling() -> None:
        timeout = 50 if how == "time" else 60_000
        async with AsgiCall(orders.asgi, "GET", f"{ALL}?timeout={timeout}") as call:
            await soon(lambda: waiters(orders) == 3)
            if how == "deleted":
                await orders.tier.in_thread(orders.log.delete_topic, "orders")
                assert (await call.head())[0] == 404
            elif how == "closing":
                orders.tier.closing.set()
            elif how == "gone":
                call.leave()
            if how in ("closing", "time"):
                assert (await call.head())[0] == 200
                assert await call.body() == b""
        await nothing_is_left(orders)

    orders.run(polling())


def test_a_large_answer_comes_in_pieces(orders: HttpApp):
    rows: list[Any] = [Record(b"x" * 1000, partition=n % 3) for n in range(3000)]
    orders.log.append("orders", rows)

    async def slowly() -> None:
        async with AsgiCall(orders.asgi, "GET", f"{ALL}?max_bytes=67108864") as call:
            pieces = [await call.piece()]
            assert orders.tier.read_room.held > 2_000_000
            while (piece := await call.piece()) is not None:
                pieces.append(piece)
            assert len(pieces) > 5
            assert sum(piece.count(b"\n") for piece in pieces if piece) == 3000
        assert orders.tier.read_room.held == 0

    orders.run(slowly())
