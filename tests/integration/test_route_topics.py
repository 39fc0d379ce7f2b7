"""v2's topics, partitions, offsets and brokers, and the routes that make and remove topics."""

from __future__ import annotations

import pytest

from delta_log import Record
from tests.support.http_app import HttpApp, error_code
from tests.support.logs import NOW, Place, replace_settings

V2 = "application/vnd.kafka.v2+json"
ONE_REPLICA = [{"broker": 1, "leader": True, "in_sync": True}]


def test_a_new_root_has_no_topics_and_one_broker(app: HttpApp):
    assert app.get("/topics").json() == []
    assert app.get("/brokers").json() == {"brokers": [1]}


def test_a_topic_is_made_by_an_empty_put(app: HttpApp):
    made = app.put("/topics/orders")
    assert made.status_code == 201
    assert made.headers["content-type"] == V2
    assert made.json()["name"] == "orders"
    assert made.json()["partitions"] == [{"partition": 0, "leader": 1, "replicas": ONE_REPLICA}]
    assert app.get("/topics").json() == ["orders"]


def test_a_put_tells_the_settings_of_the_topic_itself_and_a_get_all_that_are_in_force(app: HttpApp):
    wanted = {"configs": {"segment.ms": "77", "retention.ms": 1000, "cleanup.policy": None}}
    made = app.put("/topics/orders", json=wanted)
    again = app.put("/topics/orders")
    assert (made.status_code, again.status_code) == (201, 200)
    assert made.json()["configs"] == {"retention.ms": "1000", "segment.ms": "77"}
    assert again.json() == made.json()
    described = app.get("/topics/orders").json()
    assert described["configs"].items() > made.json()["configs"].items()
    assert described["configs"]["cleanup.policy"] == "delete"
    assert described == made.json() | {"configs": described["configs"]}
    assert app.put("/topics/other").json()["configs"] == {}


def test_a_topic_that_is_made_again_is_told_from_its_predecessor(app: HttpApp):
    made = app.put("/topics/orders").headers["lakelog-topic-id"]
    assert app.get("/topics/orders").headers["lakelog-topic-id"] == made
    assert app.put("/topics/orders").headers["lakelog-topic-id"] == made
    app.delete("/topics/orders")
    again = app.put("/topics/orders").headers["lakelog-topic-id"]
    assert again != made
    assert app.get("/topics/orders").headers["lakelog-topic-id"] == again


def test_a_topic_is_made_with_what_is_wanted_of_it(app: HttpApp):
    made = app.put("/topics/orders", json={"partitions": 3, "configs": {"retention.ms": 1000, "segment.ms": "77"}})
    assert made.status_code == 201
    assert app.log.describe_topic("orders").partitions == 3
    assert app.log.describe_topic("orders").config.retention_ms == 1000
    assert app.log.describe_topic("orders").config.segment_ms == 77


def test_to_want_what_is_there_changes_nothing(app: HttpApp):
    wanted = {"partitions": 2, "configs": {"retention.ms": "1000"}}
    assert app.put("/topics/orders", json=wanted).status_code == 201
    for same in (wanted, {"partitions": 2}, {"configs": {"retention.ms": 1000, "segment.ms": None}}, {}):
        again = app.put("/topics/orders", json=same)
        assert (again.status_code, again.json()["name"]) == (200, "orders")


@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        ({"partitions": 3}, "it has 1 partition, not 3"),
        ({"configs": {"retention.ms": 5}}, "retention.ms is 1000, not 5"),
        ({"configs": {"retention.ms": None}}, "retention.ms is 1000, not 604800000"),
    ],
)
def test_to_want_something_else_is_refused_and_says_what_differs(app: HttpApp, wanted: dict[str, object], said: str):
    app.log.create_topic("orders", 1, {"retention.ms": 1000})
    refused = app.put("/topics/orders", json=wanted)
    assert error_code(refused) == (409, 409)
    assert said in refused.json()["message"]
    assert app.log.describe_topic("orders").partitions == 1
    assert app.log.describe_topic("orders").config.retention_ms == 1000


def test_a_name_too_much_like_another_is_refused(app: HttpApp):
    app.put("/topics/my.orders")
    assert error_code(app.put("/topics/My_Orders")) == (409, 40901)
    assert app.get("/topics").json() == ["my.orders"]


@pytest.mark.parametrize(
    "body",
    [
        b"{",
        b"[]",
        b"null",
        b'"x"',
        b'{"partitions": "3"}',
        b'{"partitions": true}',
        b'{"partitions": 1.5}',
        b'{"partitions": 1e3}',
        b'{"partitions": 0}',
        b'{"partitions": 10001}',
        b'{"partitions": 99999999999999999999999}',
        b'{"partitions": 1, "partitions": 2}',
        b'{"partitionz": 1}',
        b'{"configs": {"retention.ms": 1, "retention.ms": 2}}',
        b'{"configs": {"no.such.setting": 1}}',
        b'{"configs": {"retention.ms": true}}',
        b'{"configs": {"retention.ms": NaN}}',
        b'{"configs": {"cleanup.policy": "\\ud800"}}',
        b'\xef\xbb\xbf{"partitions": 1}',
        b"\xff\xfe{\x00}\x00",
        b'{"configs": ' + b'{"a":' * 5000 + b"1" + b"}" * 5000 + b"}",
        b'{"partitions": ' + b"9" * 5000 + b"}",
    ],
)
def test_a_body_that_is_not_exactly_right_makes_no_topic(app: HttpApp, body: bytes):
    refused = app.put("/topics/orders", content=body, headers={"content-type": "application/json"})
    assert error_code(refused) == (422, 422)
    assert len(refused.json()["message"]) < 600
    assert app.log.topics() == []


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (b'{"partitions": 10001}', "partitions must be at most 10000"),
        (b'{"partitions": 0}', "partitions must be at least 1"),
    ],
)
def test_a_number_that_is_out_of_bounds_is_told_its_bound(app: HttpApp, body: bytes, says: str):
    assert app.put("/topics/orders", content=body).json()["message"] == f"the body cannot be used: {says}"


def test_a_long_body_is_refused(app: HttpApp):
    body = b'{"configs": {"a": "' + b"x" * 2_000_000 + b'"}}'
    assert error_code(app.put("/topics/orders", content=body)) == (413, 413)


@pytest.mark.parametrize(
    "media", ["application/x-www-form-urlencoded", "text/plain", "application/json; charset=latin1"]
)
def test_a_body_of_another_type_is_refused(app: HttpApp, media: str):
    refused = app.put("/topics/orders", content=b"{}", headers={"content-type": media})
    assert error_code(refused) == (415, 415)
    assert app.log.topics() == []


@pytest.mark.parametrize(
    "media", [V2, "application/json", "application/vnd.kafka+json", "APPLICATION/JSON; charset=UTF-8"]
)
def test_a_body_of_a_type_of_v2_is_taken(app: HttpApp, media: str):
    assert app.put("/topics/orders", content=b"{}", headers={"content-type": media}).status_code == 201


@pytest.mark.parametrize(
    "name",
    ["__internal", "a b", "-x", ".x", "x.", "_delta_log", "x" * 250, "%00", "x%0A", "a%2Fb", "%2e%2e", "ä"],
)
def test_a_name_that_cannot_be_a_topics_is_refused(app: HttpApp, name: str):
    for method in ("PUT", "GET", "DELETE"):
        assert error_code(app.request(method, f"/topics/{name}"))[0] in (404, 422)
    assert app.log.topics() == []


def test_a_deleted_topic_is_gone(app: HttpApp):
    app.put("/topics/orders")
    gone = app.delete("/topics/orders")
    assert (gone.status_code, gone.content) == (204, b"")
    assert app.get("/topics").json() == []
    assert error_code(app.delete("/topics/orders")) == (404, 40403)


def test_an_unknown_topic_has_its_own_code(app: HttpApp):
    assert error_code(app.get("/topics/none")) == (404, 40403)
    for path in ("partitions", "partitions/0", "partitions/x", "partitions/0/offsets"):
        assert error_code(app.get(f"/topics/none/{path}")) == (404, 40401)
    assert error_code(app.post("/topics/none/partitions/0/records:delete", json={"before_offset": 0})) == (404, 40401)


def test_partitions_are_listed_and_described(app: HttpApp):
    app.put("/topics/orders", json={"partitions": 2})
    listed = app.get("/topics/orders/partitions").json()
    assert listed == [{"partition": number, "leader": 1, "replicas": ONE_REPLICA} for number in (0, 1)]
    assert app.get("/topics/orders/partitions/1").json() == listed[1]


@pytest.mark.parametrize("partition", ["2", "-1", "x", "1.0", "01", "99999999999999999999", "%20"])
def test_a_partition_that_is_not_there_is_not_found(app: HttpApp, partition: str):
    app.put("/topics/orders", json={"partitions": 2})
    for path in (f"partitions/{partition}", f"partitions/{partition}/offsets"):
        assert error_code(app.get(f"/topics/orders/{path}")) == (404, 40402)
    refused = app.post(f"/topics/orders/partitions/{partition}/records:delete", json={"before_offset": 0})
    assert error_code(refused) == (404, 40402)


def test_offsets_say_where_a_partition_begins_and_ends(app: HttpApp):
    app.put("/topics/orders")
    assert app.get("/topics/orders/partitions/0/offsets").json() == {"beginning_offset": 0, "end_offset": 0}
    app.log.append("orders", [Record(b"a"), Record(b"b")])
    assert app.get("/topics/orders/partitions/0/offsets").json() == {"beginning_offset": 0, "end_offset": 2}


def test_an_offset_is_found_by_time(app: HttpApp):
    app.put("/topics/orders")
    app.log.append("orders", [Record(b"a", timestamp=NOW), Record(b"b", timestamp=NOW + 10)])

    def found(timestamp: int) -> dict[str, int | None]:
        return app.get("/topics/orders/partitions/0/offsets", params={"timestamp": timestamp}).json()

    assert found(NOW + 1) == {"beginning_offset": 0, "end_offset": 2, "offset": 1}
    assert found(0)["offset"] == 0
    assert found(NOW + 11)["offset"] is None


@pytest.mark.parametrize(
    "query",
    ["timestamp=-1", "timestamp=253402300800000", "timestamp=x", "timestamp=", "timestamp=1&timestamp=1", "time=1"],
)
def test_a_query_that_is_not_declared_is_refused(app: HttpApp, query: str):
    app.put("/topics/orders")
    assert error_code(app.get(f"/topics/orders/partitions/0/offsets?{query}"))[0] == 422


def test_no_route_here_takes_a_parameter_that_it_does_not_know(app: HttpApp):
    app.put("/topics/orders")
    for path in ("/topics", "/brokers", "/topics/orders", "/topics/orders/partitions", "/topics/orders/partitions/0"):
        assert error_code(app.get(f"{path}?x=1"))[0] == 422
    assert error_code(app.delete("/topics/orders?force=true"))[0] == 422
    assert app.log.topics() == ["orders"]


def test_the_log_start_moves_by_request(app: HttpApp):
    app.put("/topics/orders")
    app.log.append("orders", [Record(b"a"), Record(b"b"), Record(b"c")])
    path = "/topics/orders/partitions/0/records:delete"
    assert app.post(path, json={"before_offset": 2}).json() == {"log_start_offset": 2}
    assert app.get("/topics/orders/partitions/0/offsets").json() == {"beginning_offset": 2, "end_offset": 3}
    assert app.post(path, json={"before_offset": 1}).json() == {"log_start_offset": 2}
    assert app.post(path, json={"before_offset": -1}).json() == {"log_start_offset": 3}


def test_records_are_not_deleted_beyond_the_end(app: HttpApp):
    app.put("/topics/orders")
    app.log.append("orders", [Record(b"a")])
    refused = app.post("/topics/orders/partitions/0/records:delete", json={"before_offset": 2})
    assert error_code(refused) == (416, 41601)
    assert (refused.json()["log_start_offset"], refused.json()["end_offset"]) == (0, 1)


@pytest.mark.parametrize("body", [b"", b"{}", b'{"before_offset": "1"}', b'{"before_offset": -2}', b'{"offset": 1}'])
def test_records_are_not_deleted_by_a_malformed_request(app: HttpApp, body: bytes):
    app.put("/topics/orders")
    app.log.append("orders", [Record(b"a")])
    refused = app.post("/topics/orders/partitions/0/records:delete", content=body)
    assert error_code(refused) == (422, 422)
    assert app.log.offsets("orders", 0).log_start_offset == 0


@pytest.mark.parametrize(
    ("accept", "given"),
    [
        ("*/*", V2),
        ("application/*", V2),
        ("application/json", "application/json"),
        ("application/vnd.kafka+json", "application/vnd.kafka+json"),
        ("application/vnd.kafka.v2+json, application/json;q=0.9", V2),
    ],
)
def test_the_type_of_an_answer_is_chosen_by_the_client(app: HttpApp, accept: str, given: str):
    app.put("/topics/orders")
    for path in ("/topics", "/topics/orders", "/topics/orders/partitions/0/offsets", "/brokers"):
        assert app.get(path, headers={"accept": accept}).headers["content-type"] == given


def test_an_answer_that_nobody_would_take_is_not_given(app: HttpApp):
    refused = app.put("/topics/orders", headers={"accept": "text/html"})
    assert error_code(refused) == (406, 406)
    assert V2 in refused.json()["message"]
    assert app.log.topics() == []


def test_a_trailing_slash_means_the_same_route(app: HttpApp):
    app.put("/topics/orders/")
    assert app.get("/topics/").json() == ["orders"]
    assert app.get("/topics/orders/partitions/0/").status_code == 200


def test_the_batches_of_a_partition_are_the_files_of_its_table_in_pages(app: HttpApp):
    app.log.create_topic("orders", 2)
    for value in (b"one", b"two", b"three"):
        app.log.append("orders", [Record(value, partition=1)] * 2)
        app.log.flush("orders")
    path = "/topics/orders/partitions/1/batches"
    listed = app.get(path).json()["batches"]
    files = app.log.files("orders", 1)
    assert [(each["base_offset"], each["last_offset"], each["count"]) for each in listed] == [
        (0, 1, 2),
        (2, 3, 2),
        (4, 5, 2),
    ]
    assert [each["position"] for each in listed] == [0, files[0].size, files[0].size + files[1].size]
    assert [(each["file"], each["size"], each["created_ms"]) for each in listed] == [
        (file.path, file.size, NOW) for file in files
    ]
    assert app.get(f"{path}?offset=3&max_batches=1").json()["batches"] == listed[1:2]
    assert (
        app.get(f"{path}?offset=6").json() == app.get("/topics/orders/partitions/0/batches").json() == {"batches": []}
    )


def test_batches_of_what_is_not_there_are_refused(app: HttpApp):
    assert error_code(app.get("/topics/orders/partitions/0/batches")) == (404, 40401)
    app.log.create_topic("orders", 1)
    assert error_code(app.get("/topics/orders/partitions/1/batches")) == (404, 40402)
    assert error_code(app.get("/topics/orders/partitions/0/batches?offset=-1")) == (422, 422)


def test_more_partitions_than_a_topic_or_all_may_have_are_refused_and_nothing_is_made(http_place: Place):
    log = http_place.open(replace_settings(max_partitions_per_topic=4, max_partitions=6))
    with HttpApp(log, auto_create_topics=True, default_partitions=3) as app:
        topics = f"/v3/clusters/{app.log.cluster_id}/topics"
        answer = app.put("/topics/orders", json={"partitions": 5})
        assert error_code(answer) == (422, 42211)
        assert (answer.json()["setting"], answer.json()["limit"]) == ("max_partitions_per_topic", 4)
        assert app.put("/topics/orders", json={"partitions": 4}).status_code == 201
        answer = app.put("/topics/more", json={"partitions": 3})
        assert error_code(answer) == (422, 42211)
        assert (answer.json()["setting"], answer.json()["limit"], answer.json()["present"]) == ("max_partitions", 6, 4)
        produced = app.post("/topics/more", json={"records": [{"value": 1}]})
        assert error_code(produced) == (422, 42211)
        for validate_only in (True, False):
            wanted = {"topic_name": "more", "partitions_count": 3, "validate_only": validate_only}
            answer = app.post(topics, json=wanted)
            assert error_code(answer) == (400, 40002)
            assert "max_partitions is 6" in answer.json()["message"]
        assert error_code(app.patch(f"{topics}/orders", json={"partitions_count": 5})) == (400, 40002)
        assert app.get("/topics").json() == ["orders"]
        assert len(app.get("/topics/orders/partitions").json()) == 4
