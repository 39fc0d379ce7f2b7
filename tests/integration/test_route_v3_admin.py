"""v3's clusters, brokers, topics, partitions and replicas, and the links between them."""

from __future__ import annotations

from typing import Any

import pytest

from delta_log import Record
from tests.support.http_app import BASE, HttpApp, error_code
from tests.support.logs import Place


def here(app: HttpApp, path: str = "") -> str:
    return f"/v3/clusters/{app.log.cluster_id}{path}"


def test_there_is_one_cluster(app: HttpApp):
    listed = app.get("/v3/clusters").json()
    assert (listed["kind"], listed["metadata"]) == ("KafkaClusterList", {"self": f"{BASE}/v3/clusters", "next": None})
    cluster = app.get(here(app)).json()
    assert listed["data"] == [cluster]
    assert cluster["cluster_id"] == app.log.cluster_id
    assert cluster["metadata"]["resource_name"] == f"crn:///kafka={app.log.cluster_id}"
    assert cluster["topics"]["related"] == f"{BASE}{here(app)}/topics"


def test_there_is_one_broker_where_the_client_found_it(app: HttpApp):
    broker = app.get(here(app, "/brokers/1"), headers={"host": "api.localhost:9000"}).json()
    assert (broker["broker_id"], broker["host"], broker["port"]) == (1, "api.localhost", 9000)
    assert len(app.get(here(app, "/brokers")).json()["data"]) == 1
    for broker_id in ("2", "x", "01"):
        assert error_code(app.get(here(app, f"/brokers/{broker_id}"))) == (404, 404)


def links(of: Any, kind: str = "", member: str = "") -> list[tuple[str, str, str]]:
    """Each link with the kind of resource and the member that has it."""
    if isinstance(of, dict):
        kind = of.get("kind", kind)
        own = [(kind, member, value) for name, value in of.items() if name in ("self", "related")]
        return own + [link for name, value in of.items() for link in links(value, kind, name)]
    return [link for value in of for link in links(value, kind, member)] if isinstance(of, list) else []


#: Confluent's schema requires these members, and there is nothing here that they could lead to.
REQUIRED = {
    ("KafkaCluster", "acls"),
    ("KafkaCluster", "broker_configs"),
    ("KafkaCluster", "partition_reassignments"),
    ("KafkaBroker", "configs"),
    ("KafkaBroker", "partition_replicas"),
    ("KafkaTopic", "partition_reassignments"),
    ("KafkaPartition", "reassignment"),
}


def test_every_link_leads_on_but_for_those_that_the_schema_requires(app: HttpApp):
    app.log.create_topic("orders", 2)
    open_links, seen, nowhere = [("", "", f"{BASE}/v3/clusters")], set[str](), set[tuple[str, str]]()
    while open_links:
        kind, member, link = open_links.pop()
        answer = app.get(link.removeprefix(BASE))
        if (kind, member) in REQUIRED:
            assert error_code(answer) == (404, 404), "it leads on: take it from the list, and from http-api.md"
            nowhere.add((kind, member))
            continue
        assert answer.status_code == 200, (kind, member, link)
        open_links += [found for found in links(answer.json()) if found[2] not in seen]
        seen.add(link)
    assert nowhere == REQUIRED
    assert f"{BASE}{here(app, '/topics/orders/partitions/1/replicas/1')}" in seen
    assert f"{BASE}{here(app, '/topics/orders/configs/retention.ms')}" in seen


def test_links_begin_with_the_address_that_the_client_uses(http_place: Place):
    headers = {"x-forwarded-proto": "https", "x-forwarded-host": "a.example", "x-forwarded-prefix": "/kafka"}
    names = ("lakelog.test", "a.example")
    with HttpApp(http_place.open(), advertised_hosts=names, trusted_proxies=("127.0.0.0/8",)) as app:
        found = [link for _, _, link in links(app.get(here(app), headers=headers).json())]
    assert found
    assert all(link.startswith("https://a.example/kafka/v3/clusters") for link in found)


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("GET", "", None),
        ("GET", "/brokers", None),
        ("GET", "/topics", None),
        ("POST", "/topics", {"topic_name": "new"}),
        ("DELETE", "/topics/orders", None),
        ("PATCH", "/topics/orders", {"partitions_count": 9}),
        ("PUT", "/topics/orders/configs/retention.ms", {"value": "1"}),
        ("POST", "/topics/orders/records", {"value": {"type": "STRING", "data": "x"}}),
    ],
)
def test_an_unknown_cluster_is_not_found_and_nothing_is_done(app: HttpApp, method: str, path: str, body: Any):
    app.log.create_topic("orders")
    assert error_code(app.request(method, f"/v3/clusters/other{path}", json=body)) == (404, 404)
    assert app.log.topics() == ["orders"]
    assert app.log.describe_topic("orders").config.explicit == ()
    assert app.log.offsets("orders", 0).end_offset == 0


def test_a_topic_is_created_described_listed_and_deleted(app: HttpApp):
    wanted = {
        "topic_name": "orders",
        "partitions_count": 3,
        "replication_factor": 1,
        "configs": [{"name": "retention.ms", "value": "1000"}, {"name": "segment.ms", "value": 77}],
    }
    made = app.post(here(app, "/topics"), json=wanted)
    assert made.status_code == 201
    assert made.headers["location"] == f"{BASE}{here(app, '/topics/orders')}"
    topic = made.json()
    assert (topic["kind"], topic["topic_name"], topic["partitions_count"]) == ("KafkaTopic", "orders", 3)
    assert (topic["replication_factor"], topic["is_internal"]) == (1, False)
    assert app.log.describe_topic("orders").config.retention_ms == 1000
    assert app.get(here(app, "/topics/orders")).json() == topic
    app.log.create_topic("another")
    assert [each["topic_name"] for each in app.get(here(app, "/topics")).json()["data"]] == ["another", "orders"]
    gone = app.delete(here(app, "/topics/orders"))
    assert (gone.status_code, gone.content) == (204, b"")
    assert error_code(app.get(here(app, "/topics/orders"))) == (404, 40403)
    assert error_code(app.delete(here(app, "/topics/orders"))) == (404, 40403)


def test_replicas_may_be_assigned_to_the_only_broker(app: HttpApp):
    assigned = [{"partition_id": 1, "broker_ids": [1]}, {"partition_id": 0, "broker_ids": [1]}]
    made = app.post(here(app, "/topics"), json={"topic_name": "orders", "replicas_assignments": assigned})
    assert made.json()["partitions_count"] == 2


def test_a_topic_that_is_only_validated_is_not_made(app: HttpApp):
    valid = app.post(here(app, "/topics"), json={"topic_name": "orders", "validate_only": True})
    assert (valid.status_code, valid.json()["topic_name"]) == (200, "orders")
    assert app.log.topics() == []
    app.log.create_topic("there")
    for wrong in ({"topic_name": "-x"}, {"topic_name": "There"}, {"topic_name": "x", "partitions_count": 0}):
        assert error_code(app.post(here(app, "/topics"), json={**wrong, "validate_only": True})) == (400, 40002)


@pytest.mark.parametrize(
    "wrong",
    [
        {"replication_factor": 3},
        {"replication_factor": 0},
        {"partitions_count": 0},
        {"partitions_count": -1},
        {"partitions_count": 10_001},
        {"topic_name": "a b"},
        {"topic_name": "__internal"},
        {"topic_name": ""},
        {"topic_name": "x" * 250},
        {"topic_name": "THERE"},
        {"topic_name": "there"},
        {"configs": [{"name": "no.such"}, {"name": "retention.ms", "value": "x"}]},
        {"configs": [{"name": "retention.ms", "value": "x"}]},
        {"configs": [{"name": "no.such.setting", "value": "x"}]},
        {"configs": [{"name": "retention.ms", "value": 1}, {"name": "retention.ms", "value": 2}]},
        {"replicas_assignments": []},
        {"replicas_assignments": [{"partition_id": 0, "broker_ids": [2]}]},
        {"replicas_assignments": [{"partition_id": 1, "broker_ids": [1]}]},
        {"replicas_assignments": [{"partition_id": 0, "broker_ids": [1]}], "partitions_count": 1},
    ],
)
def test_a_topic_that_cannot_be_is_a_bad_request(app: HttpApp, wrong: dict[str, Any]):
    app.log.create_topic("there")
    assert error_code(app.post(here(app, "/topics"), json={"topic_name": "orders", **wrong})) == (400, 40002)
    assert app.log.topics() == ["there"]


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{}",
        b"[]",
        b"{",
        b'{"topic_name": 1}',
        b'{"topic_name": "a", "topic_name": "b"}',
        b'{"topic_name": "a", "other": 1}',
        b'{"topic_name": "a", "partitions_count": "3"}',
        b'{"topic_name": "a", "partitions_count": 99999999999}',
        b'{"topic_name": "a", "validate_only": "true"}',
        b'{"topic_name": "a", "configs": {"retention.ms": 1}}',
        b'{"topic_name": "a", "configs": [{"name": "retention.ms", "value": true}]}',
    ],
)
def test_a_malformed_topic_is_refused(app: HttpApp, body: bytes):
    assert error_code(app.post(here(app, "/topics"), content=body)) == (422, 422)
    assert app.log.topics() == []


def test_partitions_are_only_ever_added(app: HttpApp):
    app.log.create_topic("orders", 2)
    more = app.patch(here(app, "/topics/orders"), json={"partitions_count": 4})
    assert (more.status_code, more.json()["partitions_count"]) == (200, 4)
    for wrong in (4, 3, 0, -1, 10_001):
        refused = app.patch(here(app, "/topics/orders"), json={"partitions_count": wrong})
        assert error_code(refused) == (400, 40002)
    for malformed in ({}, {"partitions_count": None}, {"partitions_count": "5"}, {"partitions_count": 5, "x": 1}):
        assert error_code(app.patch(here(app, "/topics/orders"), json=malformed)) == (422, 422)
    assert app.log.describe_topic("orders").partitions == 4
    assert error_code(app.patch(here(app, "/topics/none"), json={"partitions_count": 4})) == (404, 40403)


def test_partitions_offsets_and_replicas_are_described(app: HttpApp):
    app.log.create_topic("orders", 2)
    app.log.append("orders", [Record(b"a", partition=1)])
    path = here(app, "/topics/orders/partitions")
    listed = app.get(path).json()
    assert (listed["kind"], len(listed["data"])) == ("KafkaPartitionList", 2)
    partition = app.get(f"{path}/1").json()
    assert partition == listed["data"][1]
    assert partition["leader"]["related"] == f"{BASE}{path}/1/replicas/1"
    offsets = app.get(f"{path}/1/offset").json()
    assert (offsets["earliest_offset"], offsets["latest_offset"]) == (0, 1)


def test_the_only_replica_of_a_partition_is_described_in_the_shape_of_confluent(app: HttpApp):
    app.log.create_topic("orders", 2)
    path = here(app, "/topics/orders/partitions/1/replicas")
    replica = {
        "kind": "KafkaReplica",
        "metadata": {
            "self": f"{BASE}{path}/1",
            "resource_name": f"crn:///kafka={app.log.cluster_id}/topic=orders/partition=1/replica=1",
        },
        "cluster_id": app.log.cluster_id,
        "topic_name": "orders",
        "partition_id": 1,
        "broker_id": 1,
        "is_leader": True,
        "is_in_sync": True,
        "broker": {"related": f"{BASE}{here(app, '/brokers/1')}"},
    }
    assert app.get(f"{path}/1").json() == replica
    listed = {"kind": "KafkaReplicaList", "metadata": {"self": f"{BASE}{path}", "next": None}, "data": [replica]}
    assert app.get(path).json() == listed
    for broker in ("2", "0", "x", "01"):
        assert error_code(app.get(f"{path}/{broker}")) == (404, 404)


def test_what_is_not_there_is_not_found(app: HttpApp):
    app.log.create_topic("orders", 2)
    topics = here(app, "/topics")
    for partition in ("2", "x", "-", "-1", "01"):
        for path in ("", "/offset", "/replicas", "/replicas/1"):
            assert error_code(app.get(f"{topics}/orders/partitions/{partition}{path}")) == (404, 40402)
    for path in ("", "/partitions", "/partitions/0", "/partitions/0/offset", "/partitions/0/replicas", "/configs"):
        assert error_code(app.get(f"{topics}/none{path}")) == (404, 40403)
    assert error_code(app.get(f"{topics}/orders/partitions/0/replicas/2")) == (404, 404)


def test_only_json_is_given_and_taken(app: HttpApp):
    assert error_code(app.get("/v3/clusters", headers={"accept": "text/html"})) == (406, 406)
    assert app.get("/v3/clusters", headers={"accept": "text/html, */*;q=0.1"}).status_code == 200
    refused = app.post(here(app, "/topics"), content=b'{"topic_name": "a"}', headers={"content-type": "text/plain"})
    assert error_code(refused) == (415, 415)
    assert "application/json" in refused.json()["message"]
    assert app.log.topics() == []


def test_no_route_takes_a_parameter_that_it_does_not_know(app: HttpApp):
    assert error_code(app.get(here(app, "/topics?page_size=1"))) == (422, 422)
