"""Groups as a whole over HTTP: what there is, how far each is, and its end."""

from __future__ import annotations

import time
from urllib.parse import quote

import pytest

from tests.support.group_calls import HOSTILE, assign, commit, join, leave, more, orders, poll
from tests.support.http_app import HttpApp, error_code

V2 = "application/vnd.kafka.v2+json"


def test_there_are_no_groups_until_somebody_joins_one(app: HttpApp):
    assert app.get("/groups").json() == {"groups": []}
    orders(app)
    join(app, "billing", "one", "orders")
    join(app, "audit", "two")
    audit = {"group": "audit", "state": "Empty", "generation": 0, "assignor": None, "members": 1}
    billing = {"group": "billing", "state": "Stable", "generation": 1, "assignor": "range", "members": 1}
    assert app.get("/groups/").json() == {"groups": [each | {"dead_letter_topics": []} for each in (audit, billing)]}


def test_a_group_is_described_with_its_members_and_how_far_it_is_in_each_partition(app: HttpApp):
    orders(app)
    before_ms = time.time_ns() // 1_000_000
    join(app, "billing", "one", "orders", client_id="till 7", group_instance_id="till")
    commit(app, "billing", "one", "so far", p0=4)
    described = app.get("/groups/billing").json()
    committed_at_ms = described["partitions"][0].pop("committed_at_ms")
    assert before_ms <= committed_at_ms <= time.time_ns() // 1_000_000
    both = [{"topic": "orders", "partition": 0}, {"topic": "orders", "partition": 1}]
    assert described == {
        "group": "billing",
        "state": "Stable",
        "generation": 1,
        "assignor": "range",
        "lag": 16,
        "members": [
            {
                "instance_id": "one",
                "client_id": "till 7",
                "group_instance_id": "till",
                "standing": "active",
                "topics": ["orders"],
                "topic_pattern": None,
                "assigned": both,
                "revoking": [],
            }
        ],
        "partitions": [
            {
                **both[0],
                "owner": "one",
                "next_offset": 4,
                "log_start_offset": 0,
                "end_offset": 10,
                "lag": 6,
                "metadata": "so far",
            },
            {
                **both[1],
                "owner": "one",
                "next_offset": None,
                "log_start_offset": 0,
                "end_offset": 10,
                "lag": 10,
                "metadata": None,
                "committed_at_ms": None,
            },
        ],
    }


def test_a_partition_that_moves_is_revoking_and_its_owners_until_it_has_moved(app: HttpApp):
    orders(app)
    join(app, "billing", "one", "orders", auto_commit_enable=False)
    poll(app, "billing", "one")
    join(app, "billing", "two", "orders")
    described = app.get("/groups/billing").json()
    assert (described["state"], described["generation"]) == ("Reconciling", 2)
    one, two = described["members"]
    assert (one["assigned"], one["revoking"]) == (
        [{"topic": "orders", "partition": 0}],
        [{"topic": "orders", "partition": 1}],
    )
    assert two["assigned"] == []
    assert [each["owner"] for each in described["partitions"]] == ["one", "one"]


def test_where_nothing_is_committed_the_reset_policy_says_how_far_behind_a_group_is(app: HttpApp):
    orders(app, partitions=1)
    for policy, lag in (("earliest", 10), ("latest", 0), ("none", None)):
        join(app, policy, "one", "orders", auto_offset_reset=policy)
        (only,) = app.get(f"/groups/{policy}").json()["partitions"]
        assert (only["next_offset"], only["lag"]) == (None, lag)
    poll(app, "latest", "one")
    more(app, 0, 3)
    assert app.get("/groups/latest").json()["lag"] == 3


def test_what_a_member_chose_by_itself_is_its_own(app: HttpApp):
    orders(app)
    join(app, "billing", "one")
    assign(app, "billing", "one", 1)
    described = app.get("/groups/billing").json()
    assert (described["state"], described["assignor"]) == ("Stable", None)
    assert [(each["partition"], each["owner"]) for each in described["partitions"]] == [(1, "one")]


def test_a_group_without_members_keeps_what_it_committed(app: HttpApp):
    orders(app)
    join(app, "billing", "one", "orders")
    commit(app, "billing", "one", p1=7)
    leave(app, "billing", "one")
    described = app.get("/groups/billing").json()
    assert (described["state"], described["members"], described["lag"]) == ("Empty", [], 3)
    assert [(each["partition"], each["owner"]) for each in described["partitions"]] == [(1, None)]


def test_what_a_group_committed_goes_with_its_topic(app: HttpApp):
    orders(app)
    assert app.put("/topics/other").status_code == 201
    both = [offset(0, 3), {**offset(0, 0), "topic": "other"}]
    assert app.put("/groups/g/offsets", json={"offsets": both}).status_code == 204
    assert app.delete("/topics/orders").status_code == 204
    assert app.put("/topics/orders", json={"partitions": 1}).status_code == 201
    assert [each["topic"] for each in app.get("/groups/g/offsets").json()["offsets"]] == ["other"]


def test_a_group_is_deleted_when_it_has_no_members(app: HttpApp):
    orders(app)
    join(app, "billing", "one", "orders")
    commit(app, "billing", "one", p0=4)
    refused = app.delete("/groups/billing")
    assert error_code(refused) == (409, 40906)
    assert (refused.json()["outcome"], refused.json()["members"]) == ("not_attempted", 1)
    leave(app, "billing", "one")
    gone = app.delete("/groups/billing")
    assert (gone.status_code, gone.content) == (204, b"")
    assert app.get("/groups").json() == {"groups": []}
    for method, path in (("GET", ""), ("DELETE", ""), ("GET", "/offsets")):
        assert error_code(app.request(method, f"/groups/billing{path}")) == (404, 40404)


def offset(partition: int, next_offset: int, **more: object) -> dict[str, object]:
    return {"topic": "orders", "partition": partition, "next_offset": next_offset, **more}


@pytest.mark.parametrize("group", HOSTILE)
def test_a_group_may_be_called_anything_that_is_a_name(app: HttpApp, group: str):
    orders(app, partitions=1)
    path = f"/groups/{quote(group, safe='').replace('.', '%2E')}"
    assert app.put(f"{path}/offsets", json={"offsets": [offset(0, 3)]}).status_code == 204
    assert [each["group"] for each in app.get("/groups").json()["groups"]] == [group]
    assert (app.get(path).json()["group"], app.get(path).json()["lag"]) == (group, 7)
    assert app.post(f"{path}/offsets:reset", json={"to": "latest"}).json()["group"] == group
    assert [each["next_offset"] for each in app.get(f"{path}/offsets").json()["offsets"]] == [10]
    assert app.delete(path).status_code == 204
    assert error_code(app.get(path)) == (404, 40404)


@pytest.mark.parametrize("group", ["x" * 256, "e\u0301", "a\nb", "\x00", "\x7f"])
def test_what_is_no_name_names_no_group_and_makes_none(app: HttpApp, group: str):
    orders(app, partitions=1)
    path = f"/groups/{quote(group, safe='')}"
    assert error_code(app.put(f"{path}/offsets", json={"offsets": [offset(0, 3)]})) == (422, 422)
    for method, more_path in (("GET", ""), ("DELETE", ""), ("GET", "/offsets")):
        assert error_code(app.request(method, f"{path}{more_path}")) == (404, 40404)
    assert error_code(app.post(f"{path}/offsets:reset", json={"to": "latest"})) == (404, 40404)
    assert app.get("/groups").json() == {"groups": []}


def test_a_path_that_is_no_utf_8_is_refused(app: HttpApp):
    assert error_code(app.get("/groups/%FF")) == (422, 422)


def test_answers_are_in_the_media_type_that_is_asked_for(app: HttpApp):
    orders(app, partitions=1)
    app.put("/groups/g/offsets", json={"offsets": [offset(0, 3)]}, headers={"accept": V2})
    for path in ("/groups", "/groups/g", "/groups/g/offsets"):
        assert app.get(path, headers={"accept": V2}).headers["content-type"] == V2
        assert app.get(path, headers={"accept": "application/json"}).headers["content-type"] == "application/json"
        assert error_code(app.get(path, headers={"accept": "text/html"})) == (406, 406)
        assert error_code(app.get(f"{path}?verbose=true")) == (422, 422)
