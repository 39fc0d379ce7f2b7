"""Reading a partition by offset: where it begins, how much it gives, and that a large answer is never built whole."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from delta_log import Record
from tests.support.asgi_call import AsgiCall
from tests.support.http_app import HttpApp, error_code
from tests.support.logs import NOW
from tests.support.reading import RECORDS, fill, offsets


@pytest.fixture
def orders(app: HttpApp) -> HttpApp:
    app.log.create_topic("orders", 2)
    return app


def test_a_read_begins_at_the_earliest_record_and_says_where_to_go_on(orders: HttpApp):
    fill(orders, 3)
    answer = orders.get(RECORDS)
    assert offsets(answer) == [0, 1, 2]
    assert answer.headers["content-type"] == "application/x-ndjson"
    assert answer.headers["lakelog-next-offset"] == "3"
    assert answer.headers["lakelog-end-offset"] == "3"
    assert answer.headers["lakelog-log-start-offset"] == "0"
    assert "x-request-id" in answer.headers
    assert offsets(orders.get(RECORDS + "/")) == [0, 1, 2]


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("offset=1", [1, 2, 3]), ("offset=4", []), ("offset=earliest", [0, 1, 2, 3]), ("offset=latest", []),
        (f"timestamp={NOW + 2}", [2, 3]), (f"timestamp={NOW + 9}", []), ("timestamp=0", [0, 1, 2, 3]),
        ("max_records=2", [0, 1]), ("max_records=0", [0]), ("max_records=" + "9" * 30, [0, 1, 2, 3]),
        ("offset=1&max_records=2", [1, 2]), ("max_bytes=1", [0]), ("max_bytes=0", [0]),
        ("max_bytes=99999999999", [0, 1, 2, 3]),
        ("timeout=0", [0, 1, 2, 3]), ("timeout=" + "9" * 30, [0, 1, 2, 3]),
    ],
)  # fmt: skip
def test_a_read_gives_what_it_is_asked_for(orders: HttpApp, query: str, found: list[int]):
    fill(orders, 4)
    answer = orders.get(f"{RECORDS}?{query}")
    assert offsets(answer) == found
    assert int(answer.headers["lakelog-next-offset"]) == (found[-1] + 1 if found else 4)


@pytest.mark.parametrize("from_files", [False, True])
def test_a_bound_of_bytes_is_kept_but_for_one_record(orders: HttpApp, from_files: bool):
    fill(orders, 20, size=10_000)
    if from_files:
        orders.log.flush("orders")
    assert len(offsets(orders.get(f"{RECORDS}?max_bytes=35000"))) == 3
    assert offsets(orders.get(f"{RECORDS}?max_bytes=5000&offset=7")) == [7]


@pytest.mark.parametrize(
    "query",
    [
        "offset=-1", "offset=9223372036854775808", "offset=1e3", "offset=newest", "offset=", "offset=1&offset=1",
        "timestamp=-1", "timestamp=253402300800000", "timestamp=x", "offset=1&timestamp=1", "max_records=-1",
        "max_bytes=-5", "max_bytes=1.5", "timeout=-1", "timeout=x", "decode=hex", "ofset=1", "from=0:1", "acks=1",
    ],
)  # fmt: skip
def test_a_query_that_is_not_what_the_route_knows_is_refused(orders: HttpApp, query: str):
    assert error_code(orders.get(f"{RECORDS}?{query}")) == (422, 422)
    assert orders.tier.read_room.held == 0


def test_an_offset_outside_of_the_log_is_told_what_there_is(orders: HttpApp):
    fill(orders, 5)
    orders.log.delete_records("orders", 0, 2)
    for offset in (0, 1, 6, 2**63 - 1):
        answer = orders.get(f"{RECORDS}?offset={offset}")
        assert error_code(answer) == (416, 41601)
        assert "out of range" in answer.json()["message"]
        assert (answer.json()["log_start_offset"], answer.json()["end_offset"]) == (2, 5)
        events = orders.get(f"{RECORDS}?offset={offset}", headers={"accept": "text/event-stream"})
        assert error_code(events) == (416, 41601)
    assert offsets(orders.get(RECORDS)) == [2, 3, 4]
    assert orders.tier.read_room.held == 0


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/topics/unknown/partitions/0/records", (404, 40401)), ("/topics/orders/partitions/2/records", (404, 40402)),
        ("/topics/orders/partitions/-1/records", (404, 40402)), ("/topics/orders/partitions/x/records", (404, 40402)),
        ("/topics/orders/partitions/99999999999999999999/records", (404, 40402)),
        ("/topics/%2e%2e/partitions/0/records", (422, 422)), ("/topics/a%00/partitions/0/records", (422, 422)),
        ("/topics/orders%0a/partitions/0/records", (422, 422)), ("/topics/%ff/partitions/0/records", (422, 422)),
    ],
)  # fmt: skip
@pytest.mark.parametrize("accept", ["*/*", "text/event-stream"])
def test_what_is_not_there_is_not_found(orders: HttpApp, path: str, expected: tuple[int, int], accept: str):
    assert error_code(orders.get(path, headers={"accept": accept})) == expected
    assert orders.tier.read_room.held == 0


def test_head_answers_as_get_does_without_a_body(orders: HttpApp):
    fill(orders, 3)

    async def both() -> None:
        async with AsgiCall(orders.asgi, "HEAD", RECORDS) as head, AsgiCall(orders.asgi, "GET", RECORDS) as get:
            (head_status, head_fields), (status, fields) = await head.head(), await get.head()
            assert head_status == status == 200
            assert head_fields | {"x-request-id": ""} == fields | {"x-request-id": ""}
        events = {"accept": "text/event-stream"}
        async with AsgiCall(orders.asgi, "HEAD", RECORDS, headers=events) as head:
            assert (await head.head())[0] == 200
            assert await head.body() == b""
            await head.ended()
        assert orders.tier.watch.polling.open == 0

    orders.run(both())


def test_readers_share_the_room_and_each_is_given_some(http_place: Any):
    with HttpApp(http_place.open(), max_reads_bytes=1024 * 1024) as app:
        app.log.create_topic("orders")
        app.log.append("orders", [Record(b"x" * 10_000, partition=0) for _ in range(300)])

        async def slow_readers() -> None:
            path = f"{RECORDS}?max_bytes=67108864"
            calls = [
                AsgiCall(app.asgi, "GET", path, headers={"accept": "application/vnd.kafka.binary.v2+json"})
                for _ in range(9)
            ]
            got: list[int] = []
            for call in calls:
                await call.__aenter__()
                status, fields = await call.head()
                assert status == 200
                got.append(int(fields["lakelog-next-offset"]))
            assert got[0] > 2 * got[-1] > 0
            assert app.tier.read_room.held <= 2 * 1024 * 1024
            for call in calls:
                await call.__aexit__(None, None, None)
            assert app.tier.read_room.held == 0
            app.tier.read_room.held = 2 * 1024 * 1024
            refused = await app.client.get(path)
            assert error_code(refused) == (503, 50308)
            assert refused.headers["retry-after"] == "1"
            app.tier.read_room.held = 0

        app.run(slow_readers())


def test_a_large_answer_is_made_as_its_reader_takes_it(orders: HttpApp, monkeypatch: pytest.MonkeyPatch):
    from ingest_api.formats.encode.ndjson import LineWriter

    made: list[int] = []
    whole = LineWriter.rows

    def rows(writer: LineWriter, *given: Any) -> Any:
        for piece in whole(writer, *given):
            made.append(len(piece))
            yield piece

    monkeypatch.setattr(LineWriter, "rows", rows)
    fill(orders, 5000, size=1000)

    async def slowly() -> None:
        async with AsgiCall(orders.asgi, "GET", f"{RECORDS}?max_bytes=67108864") as call:
            assert (await call.head())[0] == 200
            pieces = 0
            while True:
                await asyncio.sleep(0.001)
                assert len(made) <= pieces + 1, "a piece was made before the one in front of it was taken"
                if await call.piece() is None:
                    break
                pieces += 1
            assert pieces == len(made) > 10
            assert max(made) < 1024 * 1024
        assert orders.tier.read_room.held == 0
        made.clear()
        async with AsgiCall(orders.asgi, "GET", f"{RECORDS}?max_bytes=67108864") as call:
            await call.piece()
            assert orders.tier.read_room.held > 4_000_000
        assert orders.tier.read_room.held == 0, "who goes away holds nothing"

    orders.run(slowly())
