"""What a produce request is answered, whatever format it is in: all of it is stored, or nothing."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
import pytest

from tests.support.asgi_call import soon
from tests.support.http_app import HttpApp, error_code
from tests.support.logs import NOW, Place, everything, values_of
from tests.support.producing import NULLS, ONE, V2, place, stored


@pytest.fixture
def orders(app: HttpApp) -> HttpApp:
    """With a topic of three partitions."""
    app.log.create_topic("orders", 3)
    return app


def test_each_record_is_answered_with_its_place(orders: HttpApp):
    records = [{"value": 1, "partition": 2}, {"value": 2, "partition": 0}, {"value": 3, "partition": 2}]
    answer = orders.post("/topics/orders", json={"records": records})
    assert answer.status_code == 200
    assert answer.headers["content-type"] == V2
    assert answer.json() == {"offsets": [place(2, 0), place(0, 0), place(2, 1)], **NULLS}
    assert values_of(orders.log, "orders", 2) == [b"1", b"3"]
    again = orders.post("/topics/orders/partitions/2", json=ONE)
    assert again.json() == {"offsets": [place(2, 2)], **NULLS}


def test_a_record_without_a_time_is_given_the_time_of_its_append(orders: HttpApp):
    orders.post("/topics/orders/partitions/0", json={"records": [{"value": 1}, {"value": 2, "timestamp": NOW - 5}]})
    assert [record.timestamp for record in everything(orders.log, "orders")] == [NOW, NOW - 5]


@pytest.mark.parametrize("accept", [V2, "application/json", "application/vnd.kafka+json", "*/*"])
def test_an_answer_is_called_what_was_asked_for(orders: HttpApp, accept: str):
    answer = orders.post("/topics/orders", json=ONE, headers={"accept": accept})
    assert answer.headers["content-type"] == (V2 if accept == "*/*" else accept)


def test_what_accepts_no_answer_is_refused_before_anything_is_stored(orders: HttpApp):
    answer = orders.post("/topics/orders", json=ONE, headers={"accept": "text/html"})
    assert error_code(answer) == (406, 406)
    assert V2 in answer.json()["message"]
    assert stored(orders) == 0


@pytest.mark.parametrize(
    "media", ["text/plain", "application/vnd.kafka.avro.v2+json", "application/json;charset=latin1"]
)
def test_what_is_no_format_is_refused_and_says_which_are(orders: HttpApp, media: str):
    answer = orders.post("/topics/orders", content=b"{}", headers={"content-type": media})
    assert error_code(answer) == (415, 415)
    if "charset" not in media:
        assert "application/x-ndjson" in answer.json()["message"]
    assert stored(orders) == 0


@pytest.mark.parametrize("path", ["/topics/unknown", "/topics/unknown/partitions/0", "/topics/unknown/partitions/77/"])
def test_an_unknown_topic_is_not_made(app: HttpApp, path: str):
    assert error_code(app.post(path, json=ONE)) == (404, 40401)
    assert app.log.topics() == []


@pytest.mark.parametrize("partition", ["3", "-1", "x", "2147483648", "9" * 300, "%00", "1%0a", "+1", "01"])
def test_an_unknown_partition_is_not_found(orders: HttpApp, partition: str):
    assert error_code(orders.post(f"/topics/orders/partitions/{partition}", json=ONE)) == (404, 40402)
    assert stored(orders) == 0


def test_an_unknown_partition_of_one_record_refuses_all(orders: HttpApp):
    records = [{"value": 1}, {"value": 2, "partition": 3}]
    assert error_code(orders.post("/topics/orders", json={"records": records})) == (404, 40402)
    assert stored(orders) == 0


@pytest.mark.parametrize(
    "name",
    ["%2e%2e", "%2e", "%00", "a%0a", "a%0d%0ab", "a" * 300, "a%2fb", "%20", "_delta_log", "-a", "a.", "%ff", "é"],
)
def test_a_name_that_no_topic_can_have_is_refused(app: HttpApp, name: str):
    for path in (f"/topics/{name}", f"/topics/{name}/partitions/0"):
        answer = app.post(path, json=ONE)
        assert error_code(answer) == (422, 422)
        assert len(answer.json()["message"]) < 500
    assert app.log.topics() == []


def test_internal_topics_are_not_written_by_clients(orders: HttpApp):
    stamp = {"producer-id": "p", "producer-epoch": "0", "producer-seq": "0"}
    assert orders.post("/topics/orders", json=ONE, headers=stamp).status_code == 200
    for topic in ("__producers", "__anything"):
        assert error_code(orders.post(f"/topics/{topic}", json=ONE)) == (422, 422)


def test_a_trailing_slash_and_a_percent_are_the_same_route(orders: HttpApp):
    for path in (
        "/topics/orders/",
        "/topics/%6frders",
        "/topics/orders/partitions/0/",
        "/topics/orders/partitions/%30",
    ):
        assert orders.post(path, json=ONE).status_code == 200
    assert stored(orders) == 4


@pytest.mark.parametrize("query", ["?acks=2", "?acks=", "?ack=1", "?acks=1&acks=1", "?wait=disk", "?acks=0&wait=table"])
def test_a_query_that_is_not_what_the_route_knows_is_refused(orders: HttpApp, query: str):
    assert error_code(orders.post(f"/topics/orders{query}", json=ONE)) == (422, 422)
    assert stored(orders) == 0


@pytest.mark.parametrize("query", ["?key=/id", "?envelope=true"])
def test_what_is_for_lines_alone_is_refused_elsewhere(orders: HttpApp, query: str):
    answer = orders.post(f"/topics/orders{query}", json=ONE)
    assert error_code(answer) == (422, 422)
    assert "application/x-ndjson" in answer.json()["message"]
    assert stored(orders) == 0


@pytest.mark.parametrize("acks", ["1", "all", "-1"])
def test_every_ack_that_is_one_means_durable(orders: HttpApp, acks: str):
    answer = orders.post(f"/topics/orders?acks={acks}", json={"records": [{"value": 1, "partition": 1}]})
    assert answer.json()["offsets"] == [place(1, 0)]


def test_without_acks_records_are_accepted_and_their_offsets_are_null(orders: HttpApp):
    answer = orders.post("/topics/orders?acks=0", json={"records": [{"value": 1}, {"value": 2}]})
    assert answer.status_code == 202
    assert answer.json() == {"offsets": [place(None, None), place(None, None)], **NULLS}

    async def all_stored() -> None:
        await soon(lambda: stored(orders) == 2)
        await soon(lambda: "orders" in orders.tier.watch.topics)
        assert orders.tier.watch.topics["orders"].records_in == 2

    orders.run(all_stored())


@pytest.mark.parametrize(
    ("path", "records", "expected"),
    [
        ("/topics/unknown?acks=0", [{"value": 1}], (404, 40401)),
        ("/topics/orders?acks=0", [{"value": 1, "partition": 3}], (404, 40402)),
        ("/topics/orders?acks=0", [{"value": "x" * 2_000_000}], (422, 42210)),
        ("/topics/orders?acks=0", [{"value": 1, "timestamp": -1}], (422, 422)),
        ("/topics/orders?acks=0", [], (422, 422)),
    ],
)
def test_what_can_never_be_stored_is_refused_also_without_acks(
    orders: HttpApp, path: str, records: list[Any], expected: tuple[int, int]
):
    assert error_code(orders.post(path, json={"records": records})) == expected
    assert stored(orders) == 0


def test_a_bad_record_refuses_its_request_and_all_bad_ones_are_named(orders: HttpApp):
    records = [{"value": 1}, {"valeu": 2}, {"value": 3}, {"value": 4, "timestamp": "now"}]
    answer = orders.post("/topics/orders", json={"records": records})
    assert error_code(answer) == (422, 422)
    assert [error["index"] for error in answer.json()["errors"]] == [1, 3]
    assert stored(orders) == 0


def test_a_record_that_is_too_large_is_refused_with_its_index(orders: HttpApp):
    records = [{"value": 1}, {"value": "x" * 1_100_000}]
    answer = orders.post("/topics/orders", json={"records": records})
    assert error_code(answer) == (422, 42210)
    assert answer.json()["index"] == 1
    assert answer.json()["errors"][0]["index"] == 1
    assert "larger than the max message size" in answer.json()["message"]
    assert stored(orders) == 0


def test_a_time_that_the_topic_does_not_take_is_refused_with_its_index(app: HttpApp):
    app.log.create_topic("orders", 1, {"message.timestamp.after.max.ms": 1000})
    records = [{"value": 1, "timestamp": NOW}, {"value": 2, "timestamp": NOW + 5000}]
    answer = app.post("/topics/orders", json={"records": records})
    assert error_code(answer) == (422, 422)
    assert answer.json()["index"] == 1
    assert stored(app) == 0


def test_a_topic_is_made_where_the_server_may(http_place: Place):
    with HttpApp(http_place.open(), auto_create_topics=True, default_partitions=2) as app:
        assert app.post("/topics/fresh", json=ONE).status_code == 200
        assert app.log.describe_topic("fresh").partitions == 2
        assert app.post("/topics/early?acks=0", json=ONE).status_code == 202
        app.run(soon(lambda: stored(app, "early") == 1))
        assert error_code(app.post("/topics/__internal", json=ONE)) == (422, 422)
        assert error_code(app.post("/topics/FRESH", json=ONE)) == (409, 40901)
        assert app.log.topics() == ["early", "fresh"]


def test_a_topic_that_several_make_at_once_is_made_once(http_place: Place):
    with HttpApp(http_place.open(), auto_create_topics=True) as app:

        async def several() -> list[httpx.Response]:
            return await asyncio.gather(*(app.client.post("/topics/fresh", json=ONE) for _ in range(8)))

        assert {answer.status_code for answer in app.run(several())} == {200}
        assert stored(app, "fresh") == 8


def test_a_refusal_of_a_request_does_not_make_its_topic(http_place: Place):
    with HttpApp(http_place.open(), auto_create_topics=True) as app:
        assert error_code(app.post("/topics/fresh", content=b"{")) == (422, 422)
        assert error_code(app.post("/topics/fresh/partitions/7", json=ONE)) == (404, 40402)
        too_large = {"records": [{"value": "x" * 2_000_000}]}
        assert error_code(app.post("/topics/fresh", json=too_large)) == (422, 42210)
        assert error_code(app.post("/topics/fresh?acks=0", json=too_large)) == (422, 42210)
        assert app.log.topics() == []


def test_a_request_id_is_echoed_or_made(orders: HttpApp):
    mine = orders.post("/topics/orders", json=ONE, headers={"x-request-id": "mine-1:a.b_c"})
    assert mine.headers["x-request-id"] == "mine-1:a.b_c"
    made = {orders.post("/topics/orders", json=ONE).headers["x-request-id"] for _ in range(3)}
    for bad in ("", "a b", "x" * 129, "a/b"):
        made.add(orders.post("/topics/orders", content=b"{", headers={"x-request-id": bad}).headers["x-request-id"])
    assert len(made) == 7


def test_what_is_stored_is_counted(orders: HttpApp):
    orders.post("/topics/orders", json={"records": [{"value": 1}, {"value": 2}]})
    orders.post("/topics/orders", content=b"{")
    assert orders.tier.watch.topics["orders"].records_in == 2
    assert orders.tier.watch.routes["produce"].statuses == {200: 1, 422: 1}
