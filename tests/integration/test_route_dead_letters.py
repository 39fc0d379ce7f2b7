"""Giving up records over HTTP: what is answered, what is refused, and what the next polls have."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.consuming import Consumer, at, consumer, make, named, put
from tests.support.http_app import HttpApp, error_code
from tests.support.logs import everything

ZERO = ("orders", 0)


@pytest.fixture
def orders(app: HttpApp) -> HttpApp:
    make(app, "orders", 2)
    put(app, "orders", 0, *range(5))
    return app


def bad(offset: object, partition: object = 0, topic: object = "orders", reason: object = "no JSON") -> dict[str, Any]:
    return {"topic": topic, "partition": partition, "offset": offset, "reason": reason}


def give_up(member: Consumer, *records: dict[str, Any], **more: Any) -> Any:
    return member.post("/dead-letters", json={"records": list(records)}, **more)


def offsets(member: Consumer) -> list[int]:
    return [record["offset"] for _ in range(3) for record in member.poll().json()]


def letters(app: HttpApp, topic: str = "g.dlq") -> int:
    if topic not in app.log.topics():
        return 0
    return sum(len(everything(app.log, topic, each)) for each in range(app.log.describe_topic(topic).partitions))


def test_the_answer_says_where_each_letter_is_and_a_repeat_copies_nothing(orders: HttpApp):
    ann = consumer(orders, "ann", "orders")
    ann.poll()
    told = give_up(ann, bad(0), bad(3))
    assert (told.status_code, told.headers["lakelog-generation"]) == (200, "1")
    letter = {"topic": "g.dlq", "partition": 0}
    assert told.json() == {
        "records": [
            {"topic": "orders", "partition": 0, "offset": 0, "letter": {**letter, "offset": 0}},
            {"topic": "orders", "partition": 0, "offset": 3, "letter": {**letter, "offset": 1}},
        ]
    }
    assert [each["letter"] for each in give_up(ann, bad(0), bad(3)).json()["records"]] == [None, None]
    assert letters(orders) == 2
    assert ann.committed(ZERO) == [1]


def test_later_polls_leave_it_out_also_those_of_another_member(orders: HttpApp):
    ann = consumer(orders, "ann", "orders")
    ann.poll()
    assert give_up(ann, bad(1), bad(3)).status_code == 200
    assert ann.committed(ZERO) == [-1]
    assert ann.delete().status_code == 204
    bob = consumer(orders, "bob", "orders")
    assert offsets(bob) == [0, 2, 4]
    assert bob.commit().status_code == 204
    assert bob.committed(ZERO) == [5]


def test_what_was_delivered_too_often_is_given_up_by_the_poll(orders: HttpApp):
    for name in ("ann", "bob"):
        dies = consumer(orders, name, "orders", max_delivery_attempts="2", dead_letter_topic="sink")
        assert dies.poll("?timeout=0&max_records=1").json()[0]["offset"] == 0
        dies.delete("?failed=true")
    eve = consumer(orders, "eve", "orders", max_delivery_attempts=2, dead_letter_topic="sink")
    assert offsets(eve) == [1, 2, 3, 4]
    (record,) = everything(orders.log, "sink", 0)
    assert dict(record.headers)["lakelog.dlq.attempts"] == b"2"


@pytest.mark.parametrize("dead", ["compacted", "tiny", "Orders"])
def test_a_topic_that_can_take_no_letter_keeps_no_poll_from_its_records(orders: HttpApp, dead: str):
    orders.put("/topics/compacted", json={"configs": {"cleanup.policy": "compact"}})
    orders.put("/topics/tiny", json={"configs": {"max.message.bytes": "200"}})
    for name in ("ann", "bob"):
        dies = consumer(orders, name, "orders", max_delivery_attempts="2", dead_letter_topic=dead)
        assert dies.poll("?timeout=0&max_records=1").json()[0]["offset"] == 0
        dies.delete("?failed=true")
    eve = consumer(orders, "eve", "orders", max_delivery_attempts=2, dead_letter_topic=dead)
    assert offsets(eve) == [1, 2, 3, 4]
    assert letters(orders) == 1
    assert give_up(eve, bad(2)).json()["records"][0]["letter"] == {"topic": "g.dlq", "partition": 0, "offset": 1}
    listed = {each["group"]: each["dead_letter_topics"] for each in orders.get("/groups").json()["groups"]}
    assert listed["g"] == [dead, "g.dlq"]


@pytest.mark.parametrize(
    ("records", "expected"),
    [
        ([bad(5)], (422, 42206)), ([bad(0), bad(9)], (422, 42206)), ([bad(2**63 - 1)], (422, 42206)),
        ([bad(0), bad(0)], (422, 422)), ([bad("0")], (422, 422)), ([bad(True)], (422, 422)), ([bad(-1)], (422, 422)),
        ([bad(0, reason=None)], (422, 422)), ([bad(0, reason="x" * 1001)], (422, 422)), ([], (422, 422)),
        ([{**bad(0), "more": 1}], (422, 422)), ([bad(each) for each in range(101)], (422, 422)),
        ([bad(0, topic="nothing")], (404, 40401)), ([bad(0, partition=2)], (404, 40402)),
        ([bad(0), bad(0, partition=-1)], (422, 422)),
    ],
)  # fmt: skip
def test_what_cannot_be_given_up_is_refused_and_nothing_is_copied(
    orders: HttpApp, records: list[dict[str, Any]], expected: tuple[int, int]
):
    ann = consumer(orders, "ann", "orders")
    ann.poll()
    assert error_code(give_up(ann, *records)) == expected
    assert letters(orders) == 0
    assert ann.committed(ZERO) == [-1]


def test_only_the_present_owner_gives_up_and_only_what_is_not_passed(orders: HttpApp):
    ann = consumer(orders, "ann", "orders")
    ann.poll()
    eve = consumer(orders, "eve")
    assert error_code(give_up(eve, bad(0))) == (409, 40904)
    assert error_code(give_up(ann, bad(0), headers={"lakelog-generation": "7"})) == (409, 40904)
    assert ann.commit(at(*ZERO, next_offset=2)).status_code == 204
    assert error_code(give_up(ann, bad(1))) == (422, 42206)
    assert error_code(give_up(Consumer(orders, "nobody", "g"), bad(1))) == (404, 40403)
    assert letters(orders) == 0


def test_who_is_assigned_partitions_by_hand_gives_up_too(orders: HttpApp):
    ann = consumer(orders, "ann")
    assert ann.post("/assignments", json=named(ZERO)).status_code == 204
    ann.poll()
    assert give_up(ann, bad(1)).status_code == 200
    assert ann.post("/positions/beginning", json=named(ZERO)).status_code == 204
    assert offsets(ann) == [0, 2, 3, 4]


def test_who_reads_ahead_is_told_of_a_last_try_and_given_it_alone_when_it_has_nothing_in_hand(orders: HttpApp):
    put(orders, "orders", 1, *range(5))
    for name in ("ann", "bob"):
        dies = consumer(orders, name, "orders", max_delivery_attempts=3)
        dies.poll("?timeout=0&max_records=1")
        assert dies.delete("?failed=true").status_code == 204
    eve = consumer(orders, "eve", "orders", max_delivery_attempts=3)
    eve.says = {"lakelog-received": "0", "lakelog-done": "0"}
    first = eve.poll("?timeout=0&keep=true", headers={"accept": "application/x-ndjson"})
    assert (first.headers["lakelog-last-try"], len(first.text.splitlines())) == ("true", 1)
    eve.says = {"lakelog-received": "1", "lakelog-done": "0"}
    waits = eve.poll("?timeout=60000&keep=true")
    assert (waits.headers["lakelog-last-try"], waits.headers["lakelog-answer"], waits.json()) == ("true", "1", [])
    eve.says = {"lakelog-received": "1", "lakelog-done": "1"}
    after = eve.poll("?timeout=0&keep=true")
    assert "lakelog-last-try" not in after.headers
    assert {(each["partition"], each["offset"]) for each in after.json()} == {
        (number, offset) for number in range(2) for offset in range(5) if (number, offset) != (0, 0)
    }
