"""What groups promise of time and of loss, over HTTP: polls and moves are in time, and nothing is skipped unnoticed."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator
from typing import Any
from unittest import mock

import pytest

from consumer_groups.coordinator import timers as deadlines
from tests.support.asgi_call import AsgiCall, soon
from tests.support.consuming import Consumer, at, consumer, make, named, put
from tests.support.http_app import HttpApp, error_code
from tests.support.logs import eventually

ZERO, ONE = ("orders", 0), ("orders", 1)


@pytest.fixture(autouse=True)
def never_held_up() -> Iterator[None]:
    """A machine that stands still for a second gives every member time anew, which is not what is tried here."""
    with mock.patch.object(deadlines, "HELD_UP_S", 60.0):
        yield


@pytest.fixture
def orders(app: HttpApp) -> HttpApp:
    make(app, "orders", 2)
    put(app, "orders", 0, 1, 2)
    put(app, "orders", 1, 7)
    return app


def pass_time(app: HttpApp, seconds: float = 0.02) -> None:
    app.run(asyncio.sleep(seconds))


# --- what a poll waits for


def test_no_poll_waits_for_a_peer_that_holds_on_to_what_is_to_move(orders: HttpApp):
    """It is dead, and neither its session nor the time to move is over for long."""
    ann = consumer(orders, "ann", "orders", session_timeout_ms=300_000, rebalance_timeout_ms=3_600_000)
    assert ann.values() == [1, 2, 7]
    bob = consumer(orders, "bob", "orders")
    for wait_ms in (0, 300):
        began = time.monotonic()
        assert bob.values(f"?timeout={wait_ms}") == []
        assert time.monotonic() - began < wait_ms / 1000 + 30
    assert orders.get("/groups/g").json()["state"] == "Reconciling"
    put(orders, "orders", 0, 3)
    assert ann.values("?timeout=0&keep=true") == [3], "what does not move is read on meanwhile"


def test_the_first_poll_after_a_subscription_has_records_of_what_is_free_without_waiting(orders: HttpApp):
    ann = consumer(orders, "ann", "orders")
    assert ann.values("?timeout=0") == [1, 2, 7]
    ann.commit()
    put(orders, "orders", 0, 3)
    put(orders, "orders", 1, 8)
    bob = consumer(orders, "bob", "orders")
    assert bob.values("?timeout=0") == [8], "nothing is uncommitted of it, so it is free at once"
    bob.commit()
    ann.delete()
    cid = consumer(orders, "cid", "orders")
    assert sorted(cid.values("?timeout=0") + bob.values("?timeout=0")) == [3]


def test_a_poll_that_waits_does_so_no_longer_when_members_come_and_go_all_the_time(orders: HttpApp):
    """Where each of them began the wait anew it would never end, as they do not either."""
    ann = consumer(orders, "ann", "orders", auto_commit_enable=True)
    ann.poll()

    async def act(wait_ms: int) -> int:
        async with AsgiCall(orders.asgi, "GET", f"{ann.path}/records?timeout={wait_ms}") as call:
            number = 0
            reading = asyncio.ensure_future(call.body())
            while not reading.done():
                number += 1
                made = await orders.client.post("/consumers/g", json={"name": f"m{number}"})
                path = made.json()["base_uri"]
                await orders.client.post(f"{path}/subscription", json={"topics": ["orders"]})
                await orders.client.delete(path)
            assert json.loads(await reading) == []
            return number

    assert any(orders.run(act(wait_ms)) > 3 for wait_ms in (400, 2_000, 10_000)), "came and went"


# --- when a partition moves


def test_a_partition_moves_at_the_latest_after_its_time_whatever_its_owner_says(orders: HttpApp):
    """Its owner lives, polls, and says in every heartbeat that it is not done."""
    ann = consumer(orders, "ann", "orders", rebalance_timeout_ms=300)
    assert ann.values() == [1, 2, 7]
    began = time.monotonic()
    bob = consumer(orders, "bob", "orders")

    def moved() -> bool:
        ann.beat(ZERO, ONE)
        ann.poll("?timeout=0&keep=true")
        pass_time(orders)
        return bob.assigned() == [1]

    eventually(moved, "the end of the time to move")
    assert time.monotonic() - began > 0.25, "not at once, as something that it was given is not committed"
    assert bob.values() == [7]
    refused = ann.commit(at(*ONE, next_offset=1))
    assert error_code(refused) == (409, 40904)
    assert ann.commit(at(*ZERO, next_offset=2)).status_code == 204, "what it kept is its own"


def test_a_partition_moves_at_once_if_nothing_that_was_given_of_it_is_uncommitted(orders: HttpApp):
    ann = consumer(orders, "ann", "orders", rebalance_timeout_ms=3_600_000)
    ann.poll()
    ann.commit(at(*ONE, next_offset=1))
    bob = consumer(orders, "bob", "orders")
    assert (ann.assigned(), bob.assigned()) == ([0], [1])
    cid = consumer(orders, "cid", "orders", group="other", rebalance_timeout_ms=3_600_000)
    assert cid.assigned() == [0, 1]
    consumer(orders, "dan", "orders", group="other")
    assert cid.assigned() == [0], "it was given nothing at all yet"


def test_only_what_moves_pauses(orders: HttpApp):
    make(orders, "wide", 8)
    options = {"partition_assignment_strategy": "cooperative-sticky", "group": "w"}
    ann = consumer(orders, "ann", "wide", **options)
    for partition in range(8):
        put(orders, "wide", partition, partition)
    assert ann.values() == list(range(8))
    bob = consumer(orders, "bob", "wide", **options)
    kept = ann.assigned()
    assert len(kept) == 4
    for partition in range(8):
        put(orders, "wide", partition, 10 + partition)
    assert ann.values("?timeout=0&keep=true") == [10 + each for each in kept]
    assert bob.values() == []


# --- what came before a group had noticed


def grow(app: HttpApp, topic: str, partitions: int) -> None:
    cluster = app.get("/v3/clusters").json()["data"][0]["cluster_id"]
    grown = app.patch(f"/v3/clusters/{cluster}/topics/{topic}", json={"partitions_count": partitions})
    assert grown.status_code == 200


def test_with_earliest_nothing_is_lost_that_came_to_new_topics_and_partitions_before_the_group_knew_of_them(
    orders: HttpApp,
):
    ann = consumer(orders, "ann", auto_offset_reset="earliest")
    assert ann.post("/subscription", json={"topic_pattern": "or.*"}).status_code == 204
    assert ann.values() == [1, 2, 7]
    orders.log.create_topic("oranges")
    put(orders, "oranges", 0, 20)
    orders.log.add_partitions("orders", 3)
    put(orders, "orders", 2, 30)
    assert ann.values() == [], "nobody has told the group"
    orders.run(orders.tier.groups.topics_changed())
    put(orders, "oranges", 0, 21)
    assert sorted(ann.values()) == [20, 21, 30]


def test_with_latest_a_partition_begins_at_its_end_when_it_is_first_read_as_in_kafka(orders: HttpApp):
    ann = consumer(orders, "ann", "orders", auto_offset_reset="latest")
    assert ann.values() == []
    put(orders, "orders", 0, 3)
    grow(orders, "orders", 3)
    put(orders, "orders", 2, 30)
    assert ann.values() == [3], "what came to the new partition before it was first read is not given"
    put(orders, "orders", 2, 31)
    assert ann.values() == [31]


def test_with_latest_a_poll_that_waits_takes_up_a_new_partition_before_anybody_can_produce_to_it(orders: HttpApp):
    ann = consumer(orders, "ann", "orders", auto_offset_reset="latest")
    assert ann.values() == []

    async def act() -> list[Any]:
        async with AsgiCall(orders.asgi, "GET", f"{ann.path}/records?timeout=60000") as call:
            await soon(lambda: orders.tier.watch.polling.open == 1)
            await asyncio.to_thread(orders.log.add_partitions, "orders", 3)
            await orders.tier.groups.topics_changed()
            known = orders.tier.groups._durable.groups.get("g")
            await soon(lambda: any(partition == 2 for _, partition in known.positions))
            put(orders, "orders", 2, 30)
            return [each["value"] for each in json.loads(await call.body())]

    assert orders.run(act()) == [30]


def test_a_group_reads_topics_by_name_and_by_pattern_together_each_partition_once(orders: HttpApp):
    make(orders, "bills", 3)
    ann = consumer(orders, "ann", "orders", "bills")
    bob = consumer(orders, "bob")
    assert bob.post("/subscription", json={"topic_pattern": "b.*|o.*"}).status_code == 204
    make(orders, "banks", 2)
    for topic, partitions in (("orders", 2), ("bills", 3), ("banks", 2)):
        for partition in range(partitions):
            put(orders, topic, partition, f'"{topic}-{partition}"')
    given = ann.poll().json() + bob.poll().json()
    fresh = sorted(each["value"] for each in given if isinstance(each["value"], str))
    assert fresh == ["banks-0", "banks-1", "bills-0", "bills-1", "bills-2", "orders-0", "orders-1"]
    owned = [each["owner"] for each in orders.get("/groups/g").json()["partitions"] if each["topic"] == "banks"]
    assert owned == ["bob", "bob"], "who did not subscribe to it is not given it"


# --- offsets


def test_offsets_go_with_their_topic_and_a_new_one_of_its_name_begins_fresh(orders: HttpApp):
    ann = consumer(orders, "ann", "orders")
    ann.poll()
    ann.commit()
    orders.put("/groups/outside/offsets", json={"offsets": [at(*ZERO, next_offset=2)]})
    assert orders.delete("/topics/orders").status_code == 204
    for group in ("g", "outside"):
        assert orders.get(f"/groups/{group}/offsets").json() == {"offsets": []}
    assert ann.assigned() == []
    make(orders, "orders", 2)
    put(orders, "orders", 0, 41)
    assert ann.committed(ZERO, ONE) == [-1, -1]
    assert ann.values() == [41]
    assert error_code(ann.commit(at(*ZERO, next_offset=2))) == (422, 42206), "the old end is beyond the new one"


def test_a_commit_without_offsets_never_lowers_what_somebody_set_and_one_with_them_may(orders: HttpApp):
    ann = consumer(orders, "ann", "orders")
    ann.poll("?timeout=0&max_records=1")
    assert ann.commit(at(*ZERO, next_offset=2)).status_code == 204
    assert ann.commit().status_code == 204
    assert ann.committed(ZERO) == [2]
    assert ann.commit(at(*ZERO, next_offset=0)).status_code == 204
    assert ann.committed(ZERO) == [0]
    assert error_code(ann.commit(at(*ZERO, next_offset=3))) == (422, 42206)
    assert ann.commit(at(*ZERO, next_offset=1, metadata="ü" * 2048)).status_code == 204
    assert error_code(ann.commit(at(*ZERO, next_offset=1, metadata="ü" * 2048 + "x"))) == (422, 42207)
    told = ann.get("/offsets", json=named(ZERO)).json()["offsets"][0]
    assert (told["offset"], told["metadata"]) == (1, "ü" * 2048)


def test_a_manual_assignment_neither_joins_the_share_out_nor_commits_over_its_owner(orders: HttpApp):
    ann, eve = consumer(orders, "ann", "orders"), consumer(orders, "eve")
    eve.assign(ZERO, ONE)
    assert ann.assigned() == [0, 1]
    assert (ann.values(), eve.values()) == ([1, 2, 7], [1, 2, 7])
    assert error_code(eve.commit(at(*ZERO, next_offset=1))) == (409, 40904)
    assert error_code(eve.post("/subscription", json={"topics": ["orders"]})) == (409, 40903)
    assert error_code(ann.post("/assignments", json=named(ZERO))) == (409, 40903)
    ann.delete()
    assert eve.commit(at(*ZERO, next_offset=1)).status_code == 204
    assert Consumer(orders, "eve").committed(ZERO) == [1]
