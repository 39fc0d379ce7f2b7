"""v3's consumer groups: Confluent's resources, and the links between them."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import pytest

from tests.integration.test_route_v3_admin import here, links
from tests.support.group_calls import HOSTILE, assign, commit, join, leave, more, orders, poll
from tests.support.http_app import BASE, HttpApp, error_code


def groups(app: HttpApp, path: str = "") -> str:
    return here(app, f"/consumer-groups{path}")


def named(app: HttpApp, name: str = "") -> str:
    return f"crn:///kafka={app.log.cluster_id}{name}"


@pytest.fixture
def read(app: HttpApp) -> HttpApp:
    """A group in which `one`, which is static, reads partition 0, and `two` partition 1."""
    orders(app)
    join(app, "billing", "one", "orders", client_id="till 7", group_instance_id="static")
    join(app, "billing", "two", "orders", client_id="till 8")
    commit(app, "billing", "one", p0=4)
    commit(app, "billing", "two", p1=1)
    return app


def test_there_are_no_groups_at_first(app: HttpApp):
    listed = {
        "kind": "KafkaConsumerGroupList",
        "metadata": {"self": f"{BASE}{groups(app)}", "next": None},
        "data": [],
    }
    assert app.get(groups(app)).json() == listed


def test_a_group_is_described_in_the_shape_of_confluent(read: HttpApp):
    billing = {
        "kind": "KafkaConsumerGroup",
        "metadata": {
            "self": f"{BASE}{groups(read, '/billing')}",
            "resource_name": named(read, "/consumer-group=billing"),
        },
        "cluster_id": read.log.cluster_id,
        "consumer_group_id": "billing",
        "is_simple": False,
        "partition_assignor": "range",
        "state": "STABLE",
        "coordinator": {"related": f"{BASE}{here(read, '/brokers/1')}"},
        "consumers": {"related": f"{BASE}{groups(read, '/billing/consumers')}"},
        "lag_summary": {"related": f"{BASE}{groups(read, '/billing/lag-summary')}"},
    }
    assert read.get(groups(read, "/billing")).json() == billing
    assert read.get(groups(read)).json()["data"] == [billing]


def test_a_group_has_one_of_the_states_of_the_schema(app: HttpApp):
    def shown() -> tuple[str, bool, str]:
        group = app.get(groups(app, "/g")).json()
        return group["state"], group["is_simple"], group["partition_assignor"]

    orders(app)
    offsets = [{"topic": "orders", "partition": 0, "next_offset": 3}]
    assert app.put("/groups/g/offsets", json={"offsets": offsets}).status_code == 204
    assert shown() == ("EMPTY", True, "")
    join(app, "g", "z", "orders", auto_commit_enable=False)
    poll(app, "g", "z")
    join(app, "g", "a", "orders")
    assert shown() == ("COMPLETING_REBALANCE", False, "range")
    leave(app, "g", "z")
    assert shown() == ("STABLE", False, "range")
    leave(app, "g", "a")
    assert shown() == ("EMPTY", False, "")


def test_members_are_described_in_the_shape_of_confluent(read: HttpApp):
    path = groups(read, "/billing/consumers")
    two = {
        "kind": "KafkaConsumer",
        "metadata": {
            "self": f"{BASE}{path}/two",
            "resource_name": named(read, "/consumer-group=billing/consumer=two"),
        },
        "cluster_id": read.log.cluster_id,
        "consumer_group_id": "billing",
        "consumer_id": "two",
        "instance_id": None,
        "client_id": "till 8",
        "assignments": {"related": f"{BASE}{path}/two/assignments"},
    }
    assert read.get(f"{path}/two").json() == two
    listed = read.get(path).json()
    assert (listed["kind"], listed["metadata"]["self"]) == ("KafkaConsumerList", f"{BASE}{path}")
    assert [each["consumer_id"] for each in listed["data"]] == ["one", "two"]
    assert listed["data"][0]["instance_id"] == "static"
    assert listed["data"][1] == two


def test_assignments_are_described_in_the_shape_of_confluent(read: HttpApp):
    path = groups(read, "/billing/consumers/one/assignments")
    assignment = {
        "kind": "KafkaConsumerAssignment",
        "metadata": {
            "self": f"{BASE}{path}/orders/partitions/0",
            "resource_name": named(read, "/consumer-group=billing/consumer=one/assignment=orders/partition=0"),
        },
        "cluster_id": read.log.cluster_id,
        "consumer_group_id": "billing",
        "consumer_id": "one",
        "topic_name": "orders",
        "partition_id": 0,
        "partition": {"related": f"{BASE}{here(read, '/topics/orders/partitions/0')}"},
        "lag": {"related": f"{BASE}{groups(read, '/billing/lags/orders/partitions/0')}"},
    }
    assert read.get(f"{path}/orders/partitions/0").json() == assignment
    listed = read.get(path).json()
    assert (listed["kind"], listed["data"]) == ("KafkaConsumerAssignmentList", [assignment])


def test_what_is_to_be_given_up_is_still_a_members(app: HttpApp):
    orders(app)
    join(app, "g", "one", "orders", auto_commit_enable=False)
    poll(app, "g", "one")
    join(app, "g", "two", "orders")
    for member, partitions in (("one", [0, 1]), ("two", [])):
        listed = app.get(groups(app, f"/g/consumers/{member}/assignments")).json()["data"]
        assert [each["partition_id"] for each in listed] == partitions


def test_lags_are_described_in_the_shape_of_confluent_and_the_largest_comes_first(read: HttpApp):
    path = groups(read, "/billing/lags")
    lag = {
        "kind": "KafkaConsumerLag",
        "metadata": {
            "self": f"{BASE}{path}/orders/partitions/1",
            "resource_name": named(read, "/consumer-group=billing/lag=orders/partition=1"),
        },
        "cluster_id": read.log.cluster_id,
        "consumer_group_id": "billing",
        "topic_name": "orders",
        "partition_id": 1,
        "current_offset": 1,
        "log_end_offset": 10,
        "lag": 9,
        "consumer_id": "two",
        "instance_id": None,
        "client_id": "till 8",
    }
    assert read.get(f"{path}/orders/partitions/1").json() == lag
    listed = read.get(path).json()
    assert listed["kind"] == "KafkaConsumerLagList"
    assert listed["data"][0] == lag
    assert [(each["partition_id"], each["lag"]) for each in listed["data"]] == [(1, 9), (0, 6)]


def test_lags_are_summarized_in_the_shape_of_confluent(read: HttpApp):
    path = groups(read, "/billing")
    summary = {
        "kind": "KafkaConsumerGroupLagSummary",
        "metadata": {
            "self": f"{BASE}{path}/lag-summary",
            "resource_name": named(read, "/consumer-group=billing/lag-summary"),
        },
        "cluster_id": read.log.cluster_id,
        "consumer_group_id": "billing",
        "max_lag_consumer_id": "two",
        "max_lag_instance_id": None,
        "max_lag_client_id": "till 8",
        "max_lag_topic_name": "orders",
        "max_lag_partition_id": 1,
        "max_lag": 9,
        "total_lag": 15,
        "max_lag_consumer": {"related": f"{BASE}{path}/consumers/two"},
        "max_lag_partition": {"related": f"{BASE}{here(read, '/topics/orders/partitions/1')}"},
    }
    assert read.get(f"{path}/lag-summary").json() == summary
    more(read, 0, 5)
    grown = read.get(f"{path}/lag-summary").json()
    assert (grown["max_lag"], grown["max_lag_partition_id"], grown["total_lag"]) == (11, 0, 20)
    assert (grown["max_lag_consumer_id"], grown["max_lag_instance_id"]) == ("one", "static")


def test_what_nobody_owns_has_a_lag_without_a_consumer(read: HttpApp):
    join(read, "audit", "self")
    assign(read, "audit", "self", 0)
    commit(read, "audit", "self", p0=2)
    leave(read, "audit", "self")
    lag = read.get(groups(read, "/audit/lags/orders/partitions/0")).json()
    assert (lag["consumer_id"], lag["instance_id"], lag["client_id"], lag["lag"]) == ("", None, "", 8)
    summary = read.get(groups(read, "/audit/lag-summary")).json()
    assert (summary["max_lag_consumer_id"], summary["total_lag"]) == ("", 8)
    assert read.get(summary["max_lag_consumer"]["related"].removeprefix(BASE)).status_code == 200


def test_every_link_of_a_group_leads_on(read: HttpApp):
    waiting, seen = [f"{BASE}{groups(read)}"], set[str]()
    while waiting:
        link = waiting.pop()
        answer = read.get(link.removeprefix(BASE))
        assert answer.status_code == 200, link
        seen.add(link)
        found = [target for _, _, target in links(answer.json())]
        waiting += [each for each in found if "/consumer-groups" in each and each not in seen]
    ends = ["/lag-summary", "/lags/orders/partitions/1", "/consumers/two/assignments/orders/partitions/1"]
    assert {f"{BASE}{groups(read, '/billing')}{end}" for end in ends} <= seen


@pytest.mark.parametrize("name", HOSTILE)
def test_links_of_a_group_and_a_member_with_any_name_lead_to_them(app: HttpApp, name: str):
    orders(app, partitions=1)
    join(app, name, name, "orders")
    commit(app, name, name, p0=2)
    (listed,) = app.get(groups(app)).json()["data"]
    assert app.get(listed["metadata"]["self"].removeprefix(BASE)).json() == listed
    (member,) = app.get(listed["consumers"]["related"].removeprefix(BASE)).json()["data"]
    assert (member["consumer_group_id"], member["consumer_id"]) == (name, name)
    assert app.get(member["metadata"]["self"].removeprefix(BASE)).json() == member
    (assignment,) = app.get(member["assignments"]["related"].removeprefix(BASE)).json()["data"]
    assert app.get(assignment["metadata"]["self"].removeprefix(BASE)).json() == assignment
    assert app.get(assignment["lag"]["related"].removeprefix(BASE)).json()["lag"] == 8
    assert app.get(listed["lag_summary"]["related"].removeprefix(BASE)).json()["total_lag"] == 8


def test_what_is_not_there_is_not_found(read: HttpApp):
    for path in ("", "/consumers", "/consumers/one", "/lags", "/lag-summary", "/lags/orders/partitions/0"):
        assert error_code(read.get(groups(read, f"/none{path}"))) == (404, 40404)
    for path in ("", "/assignments", "/assignments/orders/partitions/0"):
        assert error_code(read.get(groups(read, f"/billing/consumers/none{path}"))) == (404, 404)
    for at in ("orders/partitions/1", "orders/partitions/x", "orders/partitions/-1", "none/partitions/0"):
        assert error_code(read.get(groups(read, f"/billing/consumers/one/assignments/{at}"))) == (404, 404)
    for at in ("orders/partitions/2", "orders/partitions/00", f"{quote('../x', safe='')}/partitions/0"):
        assert error_code(read.get(groups(read, f"/billing/lags/{at}"))) == (404, 404)
    other = "/v3/clusters/other/consumer-groups"
    for path in ("", "/billing", "/billing/lags", "/billing/lag-summary"):
        assert error_code(read.get(other + path)) == (404, 404)
    assert error_code(read.get(groups(read, "/%FF"))) == (422, 422)


def test_a_group_that_committed_nothing_has_no_lag(app: HttpApp):
    orders(app)
    join(app, "g", "one", "orders")
    for path in ("/lags", "/lag-summary", "/lags/orders/partitions/0"):
        assert error_code(app.get(groups(app, f"/g{path}"))) == (404, 404)


@pytest.mark.parametrize("path", ["", "/g", "/g/consumers", "/g/lags", "/g/lag-summary"])
def test_only_json_is_given_and_no_parameter_is_taken(app: HttpApp, path: str):
    wrong: dict[str, Any] = {"accept": "text/html"}
    assert error_code(app.get(groups(app, path), headers=wrong)) == (406, 406)
    assert error_code(app.get(groups(app, f"{path}?page_size=1"))) == (422, 422)
