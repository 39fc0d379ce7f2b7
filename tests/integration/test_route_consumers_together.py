"""Several members of one group over HTTP: who reads what, what moves, who is refused, and what outlives the server."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Iterator
from unittest import mock

import httpx
import pytest

from consumer_groups.coordinator import timers as deadlines
from tests.support.asgi_call import AsgiCall, soon
from tests.support.consuming import Consumer, at, consumer, make, named, put
from tests.support.http_app import HttpApp, error_code
from tests.support.logs import Place, eventually
from tests.support.reading import waiters

ZERO, ONE = ("orders", 0), ("orders", 1)


@pytest.fixture(autouse=True)
def never_held_up() -> Iterator[None]:
    """A machine that stands still for a second gives every member time anew, which is not what is tried here."""
    with mock.patch.object(deadlines, "HELD_UP_S", 60.0):
        yield


@pytest.fixture
def orders(app: HttpApp) -> HttpApp:
    make(app, "orders", 2)
    put(app, "orders", 0, 1, 2, 3)
    put(app, "orders", 1, 7)
    return app


def fenced(refused: httpx.Response) -> int:
    """The generation that somebody's past is told."""
    assert error_code(refused) == (409, 40904)
    assert refused.json()["outcome"] == "not_attempted"
    return refused.json()["generation"]


def test_two_members_share_and_who_leaves_leaves_all_to_the_other(orders: HttpApp):
    ann, bob = consumer(orders, "ann", "orders"), consumer(orders, "bob", "orders")
    assert (ann.assigned(), bob.assigned()) == ([0], [1])
    assert (ann.values(), bob.values()) == ([1, 2, 3], [7])
    bob.commit()
    bob.delete()
    assert ann.assigned() == [0, 1]
    put(orders, "orders", 1, 8)
    assert ann.values() == [8]


def test_groups_know_nothing_of_each_other(orders: HttpApp):
    assert [consumer(orders, "ann", "orders", group=group).values() for group in ("g", "h")] == [[1, 2, 3, 7]] * 2


def test_more_members_than_partitions_own_nothing_and_are_told_so(orders: HttpApp):
    members = [consumer(orders, name, "orders") for name in ("ann", "bob", "cat")]
    assert [member.assigned() for member in members] == [[0], [1], []]
    assert members[2].values() == []
    assert members[2].beat() == {"assigned": [], "revoking": []}


def test_a_partition_moves_when_its_owner_says_that_it_gave_it_up(orders: HttpApp):
    ann = consumer(orders, "ann", "orders")
    assert ann.values() == [1, 2, 3, 7]
    bob = consumer(orders, "bob", "orders")
    assert (ann.assigned(), bob.assigned()) == ([0], [])
    assert ann.beat(ONE, ZERO) == {"assigned": [0], "revoking": [1]}
    assert ann.commit(at(*ONE, next_offset=1), at(*ZERO, next_offset=3)).status_code == 204
    assert ann.beat() == {"assigned": [0], "revoking": []}
    put(orders, "orders", 1, 8)
    assert (bob.assigned(), bob.values(), ann.values()) == ([1], [8], [])


def test_a_partition_moves_when_its_owner_gives_a_sign_of_life_that_does_not_say_what_it_holds(orders: HttpApp):
    ann = consumer(orders, "ann", "orders")
    assert ann.values() == [1, 2, 3, 7]
    bob = consumer(orders, "bob", "orders")
    assert ann.post("/heartbeat").json()["assigned"] == named(ZERO)["partitions"]
    assert bob.values() == [7]
    assert fenced(ann.commit()) == 2, "it was given what is another's now"


def test_a_partition_moves_when_its_owner_polls(orders: HttpApp):
    ann = consumer(orders, "ann", "orders", auto_commit_enable=True, auto_commit_interval_ms=0)
    ann.poll()
    bob = consumer(orders, "bob", "orders")
    ann.poll()
    put(orders, "orders", 1, 8)
    assert bob.values() == [8]


def test_a_poll_that_waits_is_given_what_moves_to_it(orders: HttpApp):
    ann, bob = consumer(orders, "ann", "orders"), consumer(orders, "bob")

    async def polling() -> None:
        async with AsgiCall(orders.asgi, "GET", f"{bob.path}/records?timeout=60000") as call:
            await soon(lambda: orders.tier.watch.polling.open == 1)
            began = time.monotonic()
            await orders.client.post(f"{bob.path}/subscription", json={"topics": ["orders"]})
            assert [each["value"] for each in json.loads(await call.body())] == [7]
            assert time.monotonic() - began < 50

    orders.run(polling())
    assert ann.assigned() == [0]


# --- who is refused


def test_who_speaks_for_a_generation_that_it_never_had_is_refused_by_every_route(orders: HttpApp):
    ann = consumer(orders, "ann", "orders")
    ann.says = {"lakelog-generation": "99"}
    asks: list[tuple[str, str, object]] = [
        ("GET", "/records", None), ("POST", "/offsets", None), ("POST", "/offsets", {"offsets": [at(*ZERO, offset=0)]}),
        ("GET", "/offsets", named(ZERO)), ("POST", "/heartbeat", None), ("GET", "/assignments", None),
        ("GET", "/subscription", None), ("POST", "/subscription", {"topics": ["orders"]}),
        ("POST", "/positions", {"offsets": [at(*ZERO, offset=0)]}), ("POST", "/positions/end", named(ZERO)),
        ("POST", "/positions", {"offsets": [at(*ZERO, timestamp=0)]}), ("POST", "/positions/beginning", named(ZERO)),
        ("POST", "/assignments", named(ZERO)), ("DELETE", "/subscription", None), ("DELETE", "", None),
    ]  # fmt: skip
    for method, path, body in asks:
        refused = ann.ask(method, path, **({} if body is None else {"json": body}))
        assert fenced(refused) == 1, (method, path)
    ann.says = {}
    assert ann.committed(ZERO) == [-1]
    assert ann.values() == [1, 2, 3, 7]


def test_an_old_generation_is_good_for_what_never_moved_and_for_nothing_else(orders: HttpApp):
    ann = consumer(orders, "ann", "orders")
    ann.says = {"lakelog-generation": ann.poll().headers["lakelog-generation"]}
    bob = consumer(orders, "bob", "orders")
    assert ann.beat() == {"assigned": [0], "revoking": []}
    bob.values()
    assert ann.commit(at(*ZERO, offset=0)).status_code == 204
    assert fenced(ann.commit(at(*ONE, offset=0))) == 2
    assert fenced(ann.commit(at(*ZERO, offset=1), at(*ONE, offset=0))) == 2
    refused = ann.commit(at(*ONE, offset=0)).json()
    assert (refused["topic"], refused["partition"]) == ONE
    assert bob.committed(ZERO, ONE) == [1, -1]
    bob.delete()
    assert ann.assigned() == [0, 1]
    assert fenced(ann.commit(at(*ONE, offset=0))) == 3, "it is its own again, but not since then"


def test_the_successor_of_a_static_member_has_its_partitions_and_fences_its_past(orders: HttpApp):
    first = consumer(orders, "ann", "orders", group_instance_id="static")
    bob = consumer(orders, "bob", "orders")
    first.says = {"lakelog-generation": first.poll().headers["lakelog-generation"]}
    second = consumer(orders, "ann", group_instance_id="static")
    assert (second.assigned(), bob.assigned()) == ([0], [1])
    told = int(second.poll().headers["lakelog-generation"])
    for ask in (lambda: first.get("/records"), first.commit, lambda: first.post("/heartbeat"), first.delete):
        assert fenced(ask()) == told
    third = consumer(orders, "other name", group_instance_id="static")
    assert error_code(second.get("/records")) == (404, 40403)
    assert (third.assigned(), third.values()) == ([0], [1, 2, 3])


def test_a_static_member_that_leaves_may_come_back_unless_it_left_for_good(orders: HttpApp):
    ann = consumer(orders, "ann", "orders", group_instance_id="static")
    bob = consumer(orders, "bob", "orders")
    assert ann.delete().status_code == 204
    assert error_code(ann.get("/records")) == (404, 40403)
    assert bob.assigned() == [1]
    again = consumer(orders, "ann", group_instance_id="static")
    assert again.assigned() == [0]
    assert again.delete("?for_good=true").status_code == 204
    assert bob.assigned() == [0, 1]


def test_who_does_not_poll_in_time_loses_its_partitions_until_it_does(orders: HttpApp):
    ann = consumer(orders, "ann", "orders", max_poll_interval_ms=200)
    ann.poll("?timeout=0&max_records=1")

    def lost() -> bool:
        orders.run(asyncio.sleep(0.02))
        return ann.assigned() == []

    eventually(lost, "the end of its time between two polls")
    assert fenced(ann.commit()) == fenced(ann.commit(at(*ZERO, offset=0))) >= 1
    assert ann.post("/heartbeat").status_code == 200
    # Where the machine stands still, its time is over again before it has what it asked for.
    given: list[int] = []

    def is_given_some() -> bool:
        given.extend(ann.values())
        return given != []

    eventually(is_given_some, "what it had lost")
    assert sorted(given) == [1, 2, 3, 7]


def test_what_a_silent_member_had_goes_to_one_that_waits(orders: HttpApp):
    # On a machine that stands still the first session may be over before anything is given.
    for session_ms in (300, 10_000):
        ann = consumer(orders, f"ann{session_ms}", session_timeout_ms=session_ms)
        subscribed = ann.post("/subscription", json={"topics": ["orders"]})
        if subscribed.is_success and ann.get("/records?timeout=0&max_records=1").is_success:
            break
    bob = consumer(orders, "bob", "orders")
    given: list[int] = []

    def all_given() -> bool:
        given.extend(bob.values("?timeout=200"))
        return sorted(given) == [1, 2, 3, 7]

    eventually(all_given, "what was another's")
    assert error_code(ann.commit()) == (404, 40403)


# --- what outlives the server


@pytest.mark.parametrize("end", [Place.close, Place.crash], ids=["close", "crash"])
def test_a_restarted_server_knows_instances_positions_and_commits(http_place: Place, end: Callable[[Place], None]):
    with HttpApp(http_place.open()) as app:
        make(app, "orders", 2)
        put(app, "orders", 0, 1, 2, 3)
        put(app, "orders", 1, 7, 8)
        ann = consumer(app, "ann", "orders")
        bob = consumer(app, "bob", "orders", auto_offset_reset="latest")
        assert ann.values("?timeout=0&max_records=1") == [1]
        ann.commit(at(*ZERO, offset=0, metadata="tea"))
        assert ann.values("?timeout=0&max_records=1") == [2]
        assert bob.values() == []
        said = int(bob.poll().headers["lakelog-answer"])
    end(http_place)
    with HttpApp(http_place.open()) as app:
        put(app, "orders", 1, 9)
        ann, bob = Consumer(app, "ann"), Consumer(app, "bob")
        assert (ann.assigned(), bob.assigned()) == ([0], [1])
        assert ann.get("/subscription").json() == {"topics": ["orders"]}
        assert ann.get("/offsets", json=named(ZERO)).json() == {"offsets": [at(*ZERO, offset=1, metadata="tea")]}
        assert ann.values() == [2, 3], "what was not committed is given again"
        answer = bob.poll()
        assert [each["value"] for each in answer.json()] == [9], "where it began is kept"
        assert int(answer.headers["lakelog-answer"]) > said
        assert error_code(app.post("/consumers/g", json={"name": "ann"})) == (409, 40902)
        assert ann.commit().status_code == 204
        assert ann.committed(ZERO) == [3]


def test_where_somebody_sought_is_kept_over_a_restart(http_place: Place):
    with HttpApp(http_place.open()) as app:
        make(app, "orders")
        put(app, "orders", 0, 1, 2, 3)
        ann = consumer(app, "ann", "orders")
        assert ann.values() == [1, 2, 3]
        ann.commit()
        assert ann.post("/positions", json={"offsets": [at(*ZERO, offset=1)]}).status_code == 204
    http_place.crash()
    with HttpApp(http_place.open()) as app:
        assert Consumer(app, "ann").values() == [2, 3]


def test_an_answer_of_before_the_restart_that_did_not_arrive_is_given_again(http_place: Place):
    with HttpApp(http_place.open()) as app:
        make(app, "orders")
        put(app, "orders", 0, 1, 2, 3)
        ann = consumer(app, "ann", "orders")
        received = ann.poll("?timeout=0&max_records=1").headers["lakelog-answer"]
        ann.commit()
        ann.poll("?timeout=0&max_records=1")
    http_place.crash()
    with HttpApp(http_place.open()) as app:
        ann = Consumer(app, "ann")
        ann.says = {"lakelog-received": received}
        assert error_code(ann.commit()) == (409, 40903)
        assert ann.committed(ZERO) == [1]
        assert ann.values() == [2, 3]


def test_a_member_that_waits_does_not_keep_the_loop(orders: HttpApp):
    """A hundred that wait are woken by what comes, each by its own."""
    make(orders, "wide", 100)
    members = [consumer(orders, f"m{number:03}", "wide", group="crowd") for number in range(20)]

    async def crowd() -> list[int]:
        polls = [asyncio.create_task(orders.client.get(f"{member.path}/records?timeout=60000")) for member in members]
        await soon(lambda: waiters(orders, "wide") == 100)
        for partition in range(0, 100, 5):
            put(orders, "wide", partition, partition)
        return [each["value"] for answer in await asyncio.gather(*polls) for each in answer.json()]

    assert sorted(orders.run(crowd())) == list(range(0, 100, 5))
