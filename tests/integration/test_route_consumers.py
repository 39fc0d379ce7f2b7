"""v2's consumer instances: made and deleted, what they read, and that they live."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.support.consuming import V2, Consumer, at, consumer, make, named, put
from tests.support.http_app import HttpApp, error_code
from tests.support.logs import Place, eventually


@pytest.fixture
def orders(app: HttpApp) -> HttpApp:
    make(app, "orders", 2)
    make(app, "other")
    return app


# --- to make and to delete one


def test_an_instance_is_made_without_a_body_and_given_a_name(app: HttpApp):
    made = app.post("/consumers/g")
    assert made.status_code == 200
    assert made.headers["content-type"] == V2
    name = made.json()["instance_id"]
    assert made.json() == {"instance_id": name, "base_uri": f"http://lakelog.test/consumers/g/instances/{name}"}
    assert Consumer(app, name).get("/assignments").status_code == 200
    assert app.post("/consumers/g").json()["instance_id"] != name


@pytest.mark.parametrize(
    ("headers", "base"),
    [
        ({"X-Forwarded-Proto": "https", "X-Forwarded-Host": "proxy.example:8443"}, "https://proxy.example:8443"),
        ({"Forwarded": "proto=https;host=other.example"}, "https://other.example"),
        ({"X-Forwarded-Prefix": "/lake"}, "http://lakelog.test/lake"),
    ],
)
def test_an_instance_is_where_its_client_reached_us(http_place: Place, headers: dict[str, str], base: str):
    names = ("lakelog.test", "proxy.example", "other.example")
    with HttpApp(http_place.open(), advertised_hosts=names, trusted_proxies=("127.0.0.1",)) as app:
        made = app.post("/consumers/g", json={"name": "ann"}, headers=headers)
    assert made.json()["base_uri"] == f"{base}/consumers/g/instances/ann"


def test_names_of_any_letters_are_quoted_in_the_address_and_lead_back(app: HttpApp):
    made = app.post("/consumers/a%2Fb%20%C3%A4", json={"name": "x/y ?ü"})
    assert made.json()["instance_id"] == "x/y ?ü"
    base = made.json()["base_uri"]
    assert base == "http://lakelog.test/consumers/a%2Fb%20%C3%A4/instances/x%2Fy%20%3F%C3%BC"
    assert app.get(base.removeprefix("http://lakelog.test") + "/assignments").status_code == 200


def test_options_may_be_strings_and_all_media_types_of_v2_are_taken(app: HttpApp):
    for number, media in enumerate([V2, "application/json", "application/vnd.kafka.json.v2+json", None]):
        body = b'{"name": "%d", "auto.commit.enable": "false", "fetch.min.bytes": "5", "format": "json"}' % number
        headers = {} if media is None else {"content-type": media}
        assert app.post("/consumers/g", content=body, headers=headers).status_code == 200
        options = app.tier.groups.peek("g", str(number))
        assert options is not None
        assert (options.auto_commit_enable, options.fetch_min_bytes, options.format) == (False, 5, "json")


@pytest.mark.parametrize("as_text", [False, True])
def test_an_instance_is_made_as_strimzis_bridge_makes_it(app: HttpApp, as_text: bool):
    given: dict[str, Any] = {
        "name": "one", "format": "json", "auto.offset.reset": "latest", "enable.auto.commit": False,
        "fetch.min.bytes": 512, "consumer.request.timeout.ms": 30_000, "isolation.level": "read_committed",
    }  # fmt: skip
    if as_text:
        given = {name: str(value).lower() for name, value in given.items()}
    assert app.post("/consumers/g", json=given, headers={"content-type": V2}).status_code == 200
    options = app.tier.groups.peek("g", "one")
    assert options is not None
    assert (options.auto_commit_enable, options.fetch_min_bytes) == (False, 512)
    assert (options.consumer_request_timeout_ms, options.auto_offset_reset) == (30_000, "latest")


def test_two_spellings_that_contradict_each_other_make_no_instance(app: HttpApp):
    refused = app.post("/consumers/g", json={"auto.commit.enable": True, "enable.auto.commit": False})
    assert error_code(refused) == (422, 42204)
    assert refused.json()["setting"] == "enable.auto.commit"
    assert "auto.commit.enable" in refused.json()["message"]
    assert app.get("/groups").json() == {"groups": []}


def test_a_body_of_another_type_is_refused(app: HttpApp):
    refused = app.post("/consumers/g", content=b"{}", headers={"content-type": "text/plain"})
    assert error_code(refused) == (415, 415)
    assert error_code(app.post("/consumers/g", headers={"accept": "text/html"})) == (406, 406)


@pytest.mark.parametrize(
    "options",
    [
        {"format": "avro"}, {"fetch.min.bytes": -10}, {"auto.offset.reset": "bar"}, {"auto.commit.enable": 1},
        {"session.timeout.ms": 99}, {"session.timeout.ms": 1e3}, {"no.such.option": 1}, {"name": ""}, {"name": "a\0"},
        {"name": "x" * 256}, {"name": ["x"]}, {"partition.assignment.strategy": "os:getcwd"},
        {"partition.assignment.strategy": "best"}, {"group.instance.id": {"a": 1}}, {"dead.letter.topic": "a b"},
        {"name": "e\u0301"}, {"max.delivery.attempts": 0},
    ],
)  # fmt: skip
def test_an_option_that_cannot_be_used_makes_no_instance(app: HttpApp, options: dict[str, Any]):
    refused = app.post("/consumers/g", json=options)
    assert error_code(refused) == (422, 42204)
    assert refused.json()["setting"] == next(iter(options))
    assert app.get("/groups").json() == {"groups": []}


@pytest.mark.parametrize(
    "body", [b"{", b"[]", b"null", b"1", b'{"name": "a", "name": "b"}', b'{"name": "\\ud800"}', b'{"name": NaN}']
)
def test_a_body_that_is_no_object_makes_no_instance(app: HttpApp, body: bytes):
    assert error_code(app.post("/consumers/g", content=body)) == (422, 422)
    assert app.get("/groups").json() == {"groups": []}


@pytest.mark.parametrize("group", ["%00", "a%0Ab", "x" * 256, "%ff", "e%CC%81", "%C2%85"])
def test_a_group_that_cannot_be_called_so_is_refused(app: HttpApp, group: str):
    assert error_code(app.post(f"/consumers/{group}")) == (422, 422)
    assert error_code(app.get(f"/consumers/{group}/instances/x/records"))[0] in (404, 422)
    assert app.get("/groups").json() == {"groups": []}


def test_a_name_belongs_to_one_instance_until_it_is_deleted(app: HttpApp):
    ann = consumer(app, "ann")
    again = app.post("/consumers/g", json={"name": "ann"})
    assert error_code(again) == (409, 40902)
    assert again.json()["outcome"] == "not_attempted"
    assert app.post("/consumers/h", json={"name": "ann"}).status_code == 200
    gone = ann.delete()
    assert (gone.status_code, gone.content) == (204, b"")
    assert error_code(ann.delete()) == (404, 40403)
    assert app.post("/consumers/g", json={"name": "ann"}).status_code == 200


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("DELETE", "", None), ("POST", "/subscription", {"topics": ["orders"]}), ("GET", "/subscription", None),
        ("DELETE", "/subscription", None), ("POST", "/assignments", named(("orders", 0))),
        ("GET", "/assignments", None),
        ("POST", "/positions", {"offsets": [at("orders", 0, offset=0)]}),
        ("POST", "/positions", {"offsets": [at("orders", 0, timestamp=0)]}),
        ("POST", "/positions/beginning", named(("orders", 0))), ("POST", "/positions/end", named(("orders", 0))),
        ("GET", "/records", None), ("POST", "/offsets", None), ("POST", "/offsets", {"offsets": []}),
        ("GET", "/offsets", named(("orders", 0))), ("POST", "/heartbeat", None),
    ],
)  # fmt: skip
def test_every_route_refuses_an_instance_that_is_not_there(orders: HttpApp, method: str, path: str, body: Any):
    for name in ("nobody", "%00", "x" * 300, "a%2Fb"):
        given = {} if body is None else {"json": body}
        refused = Consumer(orders, name).ask(method, path, **given)
        assert error_code(refused) == (404, 40403)
        assert len(refused.json()["message"]) < 800
    assert orders.get("/groups").json() == {"groups": []}


def test_a_trailing_slash_is_accepted(orders: HttpApp):
    assert orders.post("/consumers/g/", json={"name": "ann"}).status_code == 200
    ann = Consumer(orders, "ann")
    assert ann.post("/subscription/", json={"topics": ["orders"]}).status_code == 204
    assert ann.get("/records/?timeout=0").json() == []
    assert ann.delete("/").status_code == 204


# --- what it reads


def test_a_subscription_is_told_changed_and_ended(orders: HttpApp):
    ann = consumer(orders, "ann")
    assert ann.get("/subscription").json() == {"topics": []}
    ann.subscribe("orders", "other", "orders")
    told = ann.get("/subscription")
    assert (told.headers["content-type"], told.json()) == (V2, {"topics": ["orders", "other"]})
    assert ann.assigned() == [0, 1, 0]
    ann.subscribe("other")
    assert ann.get("/assignments").json() == named(("other", 0))
    ended = ann.delete("/subscription")
    assert (ended.status_code, ended.content) == (204, b"")
    assert ann.get("/subscription").json() == {"topics": []}
    assert ann.get("/assignments").json() == {"partitions": []}
    assert ann.delete("/subscription").status_code == 204


def test_a_pattern_finds_topics_that_come_later_and_grow(orders: HttpApp):
    ann = consumer(orders, "ann")
    assert ann.post("/subscription", json={"topic_pattern": "or.*"}).status_code == 204
    assert ann.get("/subscription").json() == {"topics": ["orders"]}
    make(orders, "oranges")
    assert ann.get("/subscription").json() == {"topics": ["oranges", "orders"]}
    put(orders, "oranges", 0, 1)
    assert ann.values() == [1]
    cluster = orders.get("/v3/clusters").json()["data"][0]["cluster_id"]
    grown = orders.patch(f"/v3/clusters/{cluster}/topics/oranges", json={"partitions_count": 2})
    assert grown.status_code == 200
    put(orders, "oranges", 1, 2)
    assert ann.values() == [2]


def test_a_topic_that_is_not_there_yet_can_be_subscribed_to(app: HttpApp):
    ann = consumer(app, "ann", "orders")
    assert ann.values() == []
    make(app, "orders")
    put(app, "orders", 0, 7)
    assert ann.values() == [7]


@pytest.mark.parametrize(
    "body", [{}, {"topics": []}, {"topics": None}, {"topics": ["orders"], "topic_pattern": "other"}]
)
def test_a_subscription_is_to_topics_or_to_a_pattern(orders: HttpApp, body: dict[str, Any]):
    ann = consumer(orders, "ann")
    refused = ann.post("/subscription", json=body)
    assert error_code(refused) == (409, 40903)
    assert refused.json()["outcome"] == "not_attempted"
    assert ann.get("/subscription").json() == {"topics": []}


def test_topics_a_pattern_and_an_assignment_exclude_each_other(orders: HttpApp):
    ann, bob = consumer(orders, "ann", "orders"), consumer(orders, "bob")
    assert error_code(ann.post("/assignments", json=named(("orders", 0)))) == (409, 40903)
    assert error_code(ann.post("/subscription", json={"topic_pattern": ".*"})) == (409, 40903)
    bob.assign(("orders", 0))
    assert error_code(bob.post("/subscription", json={"topics": ["orders"]})) == (409, 40903)
    assert bob.delete("/subscription").status_code == 204
    bob.subscribe("orders")


@pytest.mark.parametrize("pattern", ["(", "a)|(b", "[", "*", "\\", "(?P<", "a{9999}"])
def test_a_pattern_that_is_none_is_refused(orders: HttpApp, pattern: str):
    refused = consumer(orders, "ann").post("/subscription", json={"topic_pattern": pattern})
    assert error_code(refused) == (422, 42205)


@pytest.mark.parametrize("topic", ["", "a b", "x" * 250, "a/b", "ä", "..", "-a", "a\0"])
def test_a_name_that_cannot_be_a_topics_is_refused(orders: HttpApp, topic: str):
    ann = consumer(orders, "ann")
    assert error_code(ann.post("/subscription", json={"topics": ["orders", topic]})) == (422, 422)
    assert ann.get("/subscription").json() == {"topics": []}


def test_an_assignment_is_told_changed_and_read_whoever_else_reads_it(orders: HttpApp):
    put(orders, "orders", 1, 1, 2)
    ann, bob = consumer(orders, "ann"), consumer(orders, "bob", "orders")
    assert ann.get("/assignments").json() == {"partitions": []}
    ann.assign(("orders", 1), ("other", 0), ("orders", 1))
    assert ann.get("/assignments").json() == named(("orders", 1), ("other", 0))
    assert ann.values() == bob.values() == [1, 2]
    ann.assign(("other", 0))
    assert ann.get("/assignments").json() == named(("other", 0))
    ann.assign()
    assert ann.get("/assignments").json() == {"partitions": []}
    ann.subscribe("orders")


@pytest.mark.parametrize(("partition", "expected"), [(("nothing", 0), (404, 40401)), (("orders", 2), (404, 40402))])
def test_what_is_not_there_cannot_be_assigned(orders: HttpApp, partition: tuple[str, int], expected: tuple[int, int]):
    ann = consumer(orders, "ann")
    assert error_code(ann.post("/assignments", json=named(("orders", 0), partition))) == expected
    assert ann.assigned() == []


# --- that it lives


def test_a_heartbeat_tells_what_is_assigned_and_the_generation(orders: HttpApp):
    ann = consumer(orders, "ann", "orders")
    for body in ({}, {"json": {}}, {"json": {"owned": []}}, {"content": b"{}", "headers": {"content-type": V2}}):
        beaten = ann.post("/heartbeat", **body)
        assert beaten.status_code == 200
        assert beaten.json() == {"generation": 1, "assigned": named(("orders", 0), ("orders", 1))["partitions"],
                                 "revoking": [], "since": {"orders": {"0": 1, "1": 1}}}  # fmt: skip
        assert beaten.headers["lakelog-generation"] == "1"


REQUESTS: list[tuple[str, str, dict[str, Any]]] = [
    ("POST", "/heartbeat", {}),
    ("GET", "/assignments", {}),
    ("GET", "/subscription", {}),
    ("POST", "/offsets", {}),
    ("GET", "/records?timeout=0", {}),
    ("GET", "/offsets?topic=orders&partition=0", {}),
    ("GET", "/records", {"headers": {"accept": "text/html"}}),
    ("GET", "/records?timeout=-1", {}),
    ("GET", "/assignments?x=1", {}),
    ("POST", "/subscription", {"content": b"{"}),
    ("POST", "/positions", {"json": {"offsets": [at("other", 0, offset=0)]}}),
    ("POST", "/heartbeat", {"headers": {"lakelog-generation": "99"}}),
    ("POST", "/heartbeat", {"headers": {"lakelog-generation": "x"}}),
    ("POST", "/assignments", {"content": b"{}", "headers": {"content-type": "text/plain"}}),
    ("DELETE", "?for_good=perhaps", {}),
]


def test_any_request_on_an_instance_is_a_heartbeat_also_one_that_is_refused(orders: HttpApp):
    ann = consumer(orders, "ann", "orders")
    presence = orders.tier.groups._durable.groups.get("g").presences["ann"]
    for method, path, given in REQUESTS:
        before = orders.tier.groups.now_ms - 60_000
        presence.heard_at_ms = before
        ann.ask(method, path, **given)
        assert presence.heard_at_ms > before, (method, path)


def test_an_instance_that_is_silent_for_its_session_is_gone(orders: HttpApp):
    ann = consumer(orders, "ann", session_timeout_ms=200)

    def is_gone() -> bool:
        orders.run(asyncio.sleep(0.05))
        return orders.get("/groups/g").json()["members"] == []

    eventually(is_gone, "the end of a session")
    for method, path in (("GET", "/assignments"), ("POST", "/offsets"), ("POST", "/heartbeat"), ("GET", "/records")):
        assert error_code(ann.ask(method, path)) == (404, 40403)


# --- assignors of one's own


def all_to_last(subscribers: Any, partitions: Any) -> Any:
    """Everything goes to who is last by name."""
    last = max(each.member_id for each in subscribers)
    everything = {(topic, each) for topic, count in partitions.items() for each in range(count)}
    return {each.member_id: everything if each.member_id == last else set() for each in subscribers}


MINE = "tests.integration.test_route_consumers:all_to_last"


def test_a_function_that_the_server_was_told_assigns(http_place: Any):
    with HttpApp(http_place.open(), assignors=(MINE,)) as app:
        make(app, "orders", 3)
        ann = consumer(app, "ann", "orders", partition_assignment_strategy=MINE)
        bob = consumer(app, "bob", "orders", partition_assignment_strategy=f"{MINE},range")
        assert (ann.assigned(), bob.assigned()) == ([], [0, 1, 2])
        other = app.post("/consumers/g", json={"partition.assignment.strategy": f"{MINE},os:getcwd"})
        assert error_code(other) == (422, 42204)


def test_a_function_that_the_server_was_not_told_is_never_loaded(app: HttpApp):
    refused = app.post("/consumers/g", json={"partition.assignment.strategy": MINE})
    assert error_code(refused) == (422, 42204)
    assert refused.json()["setting"] == "partition.assignment.strategy"


@pytest.mark.parametrize(
    ("agent", "client_id"),
    [("till 7 lakelog/0.1.0", "till 7"), ("curl/8.1", "curl/8.1"), ("", ""), ("x" * 300, "x" * 255)],
)
def test_operators_are_shown_who_a_member_is(app: HttpApp, agent: str, client_id: str):
    assert app.post("/consumers/g", json={"name": "one"}, headers={"user-agent": agent}).status_code == 200
    assert app.get("/groups/g").json()["members"][0]["client_id"] == client_id
