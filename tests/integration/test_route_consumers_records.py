"""What a poll of an instance gives: formats, heads, limits, waiting, and which partitions.

It is long, as formats, heads, limits and waiting of one route share a stage.
"""

from __future__ import annotations

import asyncio
import base64
import io
import json
from typing import Any

import pyarrow as pa
import pytest

from delta_log import Record
from delta_log.delta.file_commits import remove_files
from tests.support.asgi_call import AsgiCall, soon
from tests.support.consuming import ARROW, BINARY, JSON, NDJSON, Consumer, consumer, make, put
from tests.support.http_app import HttpApp, error_code
from tests.support.logs import FROM_FILES, NOW, Place
from tests.support.reading import nothing_is_left, waiters

GIVEN = [
    Record(b'{"a": 1}', key=b"k", partition=0, timestamp=NOW, headers=(("h", b"\xfe"), ("h", None))),
    Record(b"text", partition=0, timestamp=NOW + 1),
    Record(b"\xff", key=b"", partition=0, timestamp=NOW + 2),
    Record(None, partition=0, timestamp=NOW + 3),
]
TWO_HEADERS = [{"name": "h", "value": "/g=="}, {"name": "h", "value": None}]
SHOWN = [{"a": 1}, "text", {"base64": "/w=="}, None]


@pytest.fixture(params=[False, True], ids=["tail", "files"])
def orders(app: HttpApp, request: pytest.FixtureRequest) -> HttpApp:
    """Two topics with records of every kind, in memory or in the tables' files."""
    make(app, "orders", 2)
    make(app, "other")
    app.log.append("orders", GIVEN)
    put(app, "other", 0, 5)
    if request.param:
        app.log.flush("orders")
    return app


def b64(content: bytes | None) -> str | None:
    return None if content is None else base64.b64encode(content).decode()


# --- formats


@pytest.mark.parametrize(
    "accept",
    [None, "*/*", BINARY, "application/vnd.kafka.v2+json", "application/json", "application/vnd.kafka+json",
     "application/vnd.kafka.binary.v1+json", f"{JSON}, {BINARY};q=0.1", "text/html, */*;q=0.1"],
)  # fmt: skip
def test_a_binary_instance_is_given_base64(orders: HttpApp, accept: str | None):
    ann = consumer(orders, "ann", "orders", "other", format="binary")
    answer = ann.poll(headers={} if accept is None else {"accept": accept})
    assert answer.headers["content-type"] == BINARY
    assert answer.json() == [
        {"topic": "orders", "key": b64(each.key), "value": b64(each.value), "partition": 0, "offset": offset,
         "timestamp": NOW + offset, "headers": [] if offset else TWO_HEADERS}
        for offset, each in enumerate(GIVEN)
    ] + [{"topic": "other", "key": None, "value": b64(b"5"), "partition": 0, "offset": 0,
          "timestamp": answer.json()[-1]["timestamp"], "headers": []}]  # fmt: skip


@pytest.mark.parametrize("accept", [None, "*/*", JSON, "application/vnd.kafka.v2+json", "application/json"])
def test_a_json_instance_is_given_json_and_no_record_is_lost_that_is_none(orders: HttpApp, accept: str | None):
    ann = consumer(orders, "ann", "orders", "other")
    answer = ann.poll(headers={} if accept is None else {"accept": accept})
    assert answer.headers["content-type"] == JSON
    assert [each["value"] for each in answer.json()] == [*SHOWN, 5]
    assert [each["key"] for each in answer.json()] == ["k", None, "", None, None]


@pytest.mark.parametrize(
    ("own", "accept", "code"),
    [("json", BINARY, 40601), ("binary", JSON, 40601), ("binary", "application/vnd.kafka.json.v1+json", 40601),
     ("json", "text/html", 406), ("json", "text/event-stream", 406),
     ("json", "application/vnd.kafka.avro.v2+json", 406),
     ("json", "*/*;q=0", 406), ("json", "x" * 2000, 406), ("json", f"{BINARY}, {'a/b,' * 300}", 40601)],
)  # fmt: skip
def test_another_format_than_the_instance_s_is_refused_and_nothing_is_given(
    orders: HttpApp, own: str, accept: str, code: int
):
    ann = consumer(orders, "ann", "orders", format=own)
    refused = ann.get("/records?timeout=0", headers={"accept": accept})
    assert error_code(refused) == (406, code)
    assert f"application/vnd.kafka.{own}.v2+json" in refused.json()["message"]
    assert len(refused.json()["message"]) < 500
    assert len(ann.poll().json()) == len(GIVEN)


def test_lines_have_the_topic_first(orders: HttpApp):
    answer = consumer(orders, "ann", "orders", "other", format="binary").poll(headers={"accept": NDJSON})
    assert answer.headers["content-type"] == NDJSON
    lines = answer.text.splitlines()
    assert all(line.startswith('{"topic":"') for line in lines)
    assert [json.loads(line)["value"] for line in lines] == [*SHOWN, 5]
    assert json.loads(lines[0]) == {
        "topic": "orders", "partition": 0, "offset": 0, "timestamp": NOW, "key": "k", "value": {"a": 1},
        "headers": TWO_HEADERS,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("decode", "shown"),
    [("string", ['{"a": 1}', "text", {"base64": "/w=="}, None]), ("base64", [b64(each.value) for each in GIVEN])],
)
def test_lines_may_be_decoded_in_one_way(orders: HttpApp, decode: str, shown: list[Any]):
    answer = consumer(orders, "ann", "orders").poll(f"?timeout=0&decode={decode}", headers={"accept": NDJSON})
    assert [json.loads(line)["value"] for line in answer.text.splitlines()] == shown


def test_arrow_has_the_topics_as_a_dictionary(orders: HttpApp):
    put(orders, "orders", 1, 6)
    answer = consumer(orders, "ann", "orders", "other").poll(headers={"accept": ARROW})
    assert answer.headers["content-type"] == ARROW
    table = pa.ipc.open_stream(io.BytesIO(answer.content)).read_all()
    assert table.schema.names == ["topic", "partition", "offset", "timestamp", "key", "value", "headers"]
    assert table.schema.field("topic").type == pa.dictionary(pa.int32(), pa.string())
    rows = table.to_pylist()
    assert [(row["topic"], row["partition"], row["offset"], row["value"]) for row in rows] == [
        *(("orders", 0, offset, each.value) for offset, each in enumerate(GIVEN)),
        ("orders", 1, 0, b"6"),
        ("other", 0, 0, b"5"),
    ]
    assert rows[0]["headers"] == [{"key": "h", "value": b"\xfe"}, {"key": "h", "value": None}]


@pytest.mark.parametrize(("accept", "empty"), [(BINARY, b"[]\n"), (NDJSON, b"")])
def test_nothing_is_an_empty_answer(orders: HttpApp, accept: str, empty: bytes):
    ann = consumer(orders, "ann", format="binary")
    assert ann.poll(headers={"accept": accept}).content == empty
    assert pa.ipc.open_stream(ann.poll(headers={"accept": ARROW}).content).read_all().num_rows == 0


def test_a_large_answer_comes_in_pieces_and_is_the_same(app: HttpApp):
    make(app, "orders", 3)
    for partition in range(3):
        put(app, "orders", partition, *range(1500))
    for number, accept in enumerate([JSON, NDJSON, ARROW]):
        ann = consumer(app, "ann", "orders", group=f"g{number}")
        answer = ann.poll("?timeout=0&max_bytes=10000000", headers={"accept": accept})
        assert "content-length" not in answer.headers
        if accept == ARROW:
            rows = pa.ipc.open_stream(answer.content).read_all().to_pylist()
        else:
            rows = answer.json() if accept == JSON else [json.loads(line) for line in answer.text.splitlines()]
        expected = [(partition, offset, offset) for partition in range(3) for offset in range(1500)]
        assert [(row["partition"], row["offset"], int(row["value"])) for row in rows] == expected
        assert ann.commit().status_code == 204
        assert ann.committed(*(("orders", partition) for partition in range(3))) == [1500] * 3
    assert app.tier.read_room.held == 0


# --- heads


def test_an_answer_names_its_generation_and_its_number(orders: HttpApp):
    ann = consumer(orders, "ann", "orders")
    first = ann.poll()
    assert (first.headers["lakelog-generation"], first.headers["lakelog-answer"]) == ("1", "1")
    assert first.headers["cache-control"] == "no-store"
    assert ann.poll().headers["lakelog-answer"] == "1", "an answer without records has no number of its own"
    put(orders, "orders", 1, 7)
    assert ann.poll().headers["lakelog-answer"] == "2"
    consumer(orders, "bob", "orders")
    assert ann.poll().headers["lakelog-generation"] == "2"


def test_a_head_is_answered_without_a_poll(orders: HttpApp):
    ann = consumer(orders, "ann", "orders")
    refused = orders.run(orders.client.head(f"{ann.path}/records"))
    assert (refused.status_code, refused.headers["allow"], refused.content) == (405, "GET", b"")
    assert len(ann.poll().json()) == len(GIVEN)


@pytest.mark.parametrize("name", ["Lakelog-Generation", "Lakelog-Received"])
@pytest.mark.parametrize("given", ["", "-1", "1.0", "01", "x", "9223372036854775808", "1 "])
def test_a_number_in_a_head_is_exactly_that(orders: HttpApp, name: str, given: str):
    ann = consumer(orders, "ann", "orders")
    for method, path in (("GET", "/records"), ("POST", "/offsets"), ("POST", "/heartbeat"), ("DELETE", "")):
        refused = orders.run(_raw(orders, method, ann.path + path, name, given))
        assert refused[0] == 422, (method, path)
        assert refused[1]["error_code"] == 422
    assert len(ann.poll().json()) == len(GIVEN)


async def _raw(app: HttpApp, method: str, target: str, name: str, given: str) -> tuple[int, Any]:
    """As it is given: clients take white space away."""
    async with AsgiCall(app.asgi, method, target, headers={name: given}) as call:
        return (await call.head())[0], json.loads(await call.body())


def test_a_head_that_is_given_twice_is_refused(orders: HttpApp):
    ann = consumer(orders, "ann", "orders")

    async def asking() -> int:
        twice = [("Lakelog-Generation", "1"), ("Lakelog-Generation", "1")]
        async with AsgiCall(orders.asgi, "GET", f"{ann.path}/records", headers=twice) as call:
            return (await call.head())[0]

    assert orders.run(asking()) == 400


# --- limits


def test_an_answer_has_no_more_records_than_are_wanted_and_the_next_goes_on(orders: HttpApp):
    ann = consumer(orders, "ann", "orders")
    assert [len(ann.poll("?timeout=0&max_records=3").json()) for _ in range(3)] == [3, 1, 0]


def test_an_answer_has_at_least_one_record_whatever_its_limit(app: HttpApp):
    make(app, "orders")
    put(app, "orders", 0, '"' + "x" * 5000 + '"', 2)
    ann = consumer(app, "ann", "orders")
    assert [len(ann.values("?timeout=0&max_bytes=1")) for _ in range(3)] == [1, 1, 0]


def test_partitions_take_turns_where_there_is_no_room_for_all(app: HttpApp):
    make(app, "orders", 3)
    for partition in range(3):
        put(app, "orders", partition, *[partition] * 4)
    ann = consumer(app, "ann", "orders")
    assert {value for _ in range(3) for value in ann.values("?timeout=0&max_records=2")} == {0, 1, 2}


@pytest.mark.parametrize(
    "query",
    ["timeout=-1", "timeout=x", "timeout=1.5", "max_bytes=-1", "max_records=a", "timeout=1&timeout=2", "x=1",
     "paused=", "paused=orders", "paused=orders:", "paused=orders:-1", "paused=orders:0,", "paused=a%20b:0",
     "paused=:0", "paused=orders:99999999999", "decode=no", "paused=orders:0%00", "timeout=%ff"],
)  # fmt: skip
def test_a_parameter_that_cannot_be_used_gives_nothing(orders: HttpApp, query: str):
    ann = consumer(orders, "ann", "orders")
    assert error_code(ann.get(f"/records?{query}")) == (422, 422)
    assert len(ann.poll().json()) == len(GIVEN)


def test_numbers_beyond_their_limits_are_clamped(orders: HttpApp):
    answer = consumer(orders, "ann", "orders").poll("?timeout=99999999999999999999&max_bytes=0&max_records=0")
    assert len(answer.json()) == 1


def test_where_too_much_is_lent_nobody_is_given_more_and_nothing_is_lost(orders: HttpApp):
    ann = consumer(orders, "ann", "orders")
    room = orders.tier.read_room
    loan = room.lend(1)
    loan.keep(2 * room.most)
    refused = ann.get("/records?timeout=0")
    assert error_code(refused) == (503, 50308)
    assert refused.json()["outcome"] == "not_attempted"
    loan.end()
    assert len(ann.poll().json()) == len(GIVEN)


def test_what_is_given_is_counted(orders: HttpApp):
    consumer(orders, "ann", "orders", "other").poll()
    counted = orders.tier.watch.topics
    assert (counted["orders"].records_out, counted["other"].records_out) == (len(GIVEN), 1)
    assert counted["orders"].bytes_out > 0


def test_what_is_paused_is_not_given(orders: HttpApp):
    put(orders, "orders", 1, 6)
    ann = consumer(orders, "ann", "orders", "other")
    assert ann.values("?timeout=0&paused=orders:0,other:0,nothing:7,orders:0") == [6]
    assert ann.values("?timeout=0&paused=orders:0") == [5]
    assert ann.values() == SHOWN


def test_an_answer_that_passes_only_a_hole_has_a_number_of_its_own(http_place: Place):
    """What was compacted away at the end: there is nothing to give, and still the position moves."""
    log = http_place.open(FROM_FILES)
    with HttpApp(log) as app:
        make(app, "orders")
        for number in range(3):
            put(app, "orders", 0, number)
            log.flush()
        ann = consumer(app, "ann", "orders")
        assert ann.values("?timeout=0&max_records=1") == [0]
        live = log._running.catalog.live("orders")
        remove_files(live.table, live.id, live.table.snapshot.files(0)[1:], http_place.clock)
        passed = ann.poll()
        assert (passed.json(), passed.headers["lakelog-answer"]) == ([], "2")
        assert ann.commit().status_code == 204
        assert ann.committed(("orders", 0)) == [3]


# --- waiting


def test_a_poll_waits_for_the_next_record_and_is_woken_by_it(app: HttpApp):
    make(app, "orders", 2)
    ann = consumer(app, "ann", "orders")

    async def polling() -> None:
        loop = asyncio.get_running_loop()
        async with AsgiCall(app.asgi, "GET", f"{ann.path}/records?timeout=60000") as call:
            await soon(lambda: waiters(app) == 2)
            assert app.tier.watch.polling.open == 1
            assert app.tier.read_room.held == 0, "who waits holds nothing"
            await asyncio.sleep(0.1)
            assert not call.pieces_made
            began = loop.time()
            await app.client.post("/topics/orders/partitions/1", json={"records": [{"value": 7}]})
            assert [each["value"] for each in json.loads(await call.body())] == [7]
            assert loop.time() - began < 50
        assert app.tier.watch.polling.open == app.tier.read_room.held == waiters(app) == 0

    app.run(polling())


def test_how_long_a_poll_waits_is_said_by_it_or_by_the_instance_and_bounded_by_the_server(http_place: Place):
    with HttpApp(http_place.open(), max_poll_ms=200) as app:
        make(app, "orders")
        short = consumer(app, "short", "orders", consumer_request_timeout_ms=0)
        long = consumer(app, "long", "orders", group="h", consumer_request_timeout_ms=60_000)

        async def seconds(path: str) -> float:
            began = asyncio.get_running_loop().time()
            assert (await app.client.get(path)).json() == []
            return asyncio.get_running_loop().time() - began

        assert app.run(seconds(f"{short.path}/records?timeout=100")) >= 0.09
        assert 0.19 <= app.run(seconds(f"{long.path}/records")) < 50
        assert 0.19 <= app.run(seconds(f"{long.path}/records?timeout=60000")) < 50


def test_a_poll_waits_for_as_many_bytes_as_its_instance_wants(app: HttpApp):
    make(app, "orders")
    ann = consumer(app, "ann", "orders", fetch_min_bytes="1000", fetch_max_wait_ms="30000")
    put(app, "orders", 0, 1)

    async def polling() -> None:
        async with AsgiCall(app.asgi, "GET", f"{ann.path}/records?timeout=60000") as call:
            await soon(lambda: waiters(app) == 1)
            assert app.tier.read_room.held == 0
            put(app, "orders", 0, 2)
            await asyncio.sleep(0.1)
            assert not call.pieces_made
            put(app, "orders", 0, '"' + "x" * 2000 + '"')
            assert len(json.loads(await call.body())) == 3

    app.run(polling())


@pytest.mark.parametrize("more", ["", "&max_bytes=1", "&max_records=1"])
def test_who_wants_many_bytes_but_has_no_room_for_them_is_answered(app: HttpApp, more: str):
    make(app, "orders")
    put(app, "orders", 0, *range(200))
    ann = consumer(app, "ann", "orders", fetch_min_bytes=1000, fetch_max_wait_ms=30_000)
    assert ann.values(f"?timeout=30000{more}")


def test_a_poll_ends_when_the_server_stops(app: HttpApp):
    make(app, "orders")
    ann = consumer(app, "ann", "orders")

    async def polling() -> None:
        async with AsgiCall(app.asgi, "GET", f"{ann.path}/records?timeout=60000") as call:
            await soon(lambda: waiters(app) == 1)
            app.tier.closing.set()
            assert ((await call.head())[0], await call.body()) == (200, b"[]\n")
        async with AsgiCall(app.asgi, "GET", f"{ann.path}/records?timeout=60000") as call:
            assert await call.body() == b"[]\n", "nobody begins to wait any more"

    app.run(polling())


def test_a_poll_ends_when_its_instance_is_deleted(app: HttpApp):
    make(app, "orders")
    ann = consumer(app, "ann", "orders")

    async def polling() -> None:
        async with AsgiCall(app.asgi, "GET", f"{ann.path}/records?timeout=60000") as call:
            await soon(lambda: waiters(app) == 1)
            assert (await app.client.delete(ann.path)).status_code == 204
            assert ((await call.head())[0], json.loads(await call.body())["error_code"]) == (404, 40403)

    app.run(polling())


def test_a_poll_that_waits_sees_its_topic_go(app: HttpApp):
    make(app, "orders")
    ann = consumer(app, "ann", "orders")

    async def polling() -> None:
        async with AsgiCall(app.asgi, "GET", f"{ann.path}/records?timeout=500") as call:
            await soon(lambda: waiters(app) == 1)
            assert (await app.client.delete("/topics/orders")).status_code == 204
            assert ((await call.head())[0], await call.body()) == (200, b"[]\n")

    app.run(polling())
    make(app, "orders")
    put(app, "orders", 0, 9)
    assert ann.values() == [9]


def test_without_a_place_to_begin_a_poll_is_refused(orders: HttpApp):
    ann = consumer(orders, "ann", "orders", auto_offset_reset="none")
    refused = ann.get("/records?timeout=0")
    assert error_code(refused) == (409, 40905)
    assert (refused.json()["topic"], refused.json()["partition"]) == ("orders", 0)


def test_an_instance_without_anything_to_read_waits_and_is_given_nothing(orders: HttpApp):
    assert Consumer(orders, consumer(orders, "ann").name).values("?timeout=50") == []


def test_nothing_is_left_of_a_poll_whose_client_goes_away(app: HttpApp):
    make(app, "orders")
    ann = consumer(app, "ann", "orders")

    async def polling() -> None:
        async with AsgiCall(app.asgi, "GET", f"{ann.path}/records?timeout=60000") as call:
            await soon(lambda: waiters(app) == 1)
            call.leave()
            await call.ended()
        assert app.tier.watch.polling.open == app.tier.read_room.held == waiters(app) == 0
        await nothing_is_left(app)

    app.run(polling())
    put(app, "orders", 0, 1)
    assert ann.values() == [1]
