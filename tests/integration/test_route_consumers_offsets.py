"""How far an instance is: committing, asking what is committed, and reading on elsewhere."""

from __future__ import annotations

from typing import Any

import pytest

from delta_log import Record
from tests.support.consuming import V2, at, consumer, in_query, make, named, put
from tests.support.http_app import HttpApp, error_code
from tests.support.logs import NOW, Place

ZERO, ONE = ("orders", 0), ("orders", 1)
OUT_OF_RANGE = (422, 42206)


@pytest.fixture
def orders(app: HttpApp) -> HttpApp:
    make(app, "orders", 2)
    make(app, "other")
    put(app, "orders", 0, *range(5))
    put(app, "orders", 1, *range(3))
    return app


# --- commits


@pytest.mark.parametrize("body", [None, b"", b"{}", b" {} "])
def test_without_a_body_exactly_what_was_given_is_committed(orders: HttpApp, body: bytes | None):
    ann = consumer(orders, "ann", "orders")
    ann.poll("?timeout=0&max_records=2")
    done = ann.post("/offsets", content=body, headers={"content-type": V2} if body else {})
    assert (done.status_code, done.content, done.headers["lakelog-generation"]) == (204, b"", "1")
    assert ann.committed(ZERO, ONE) == [2, -1]
    ann.poll()
    assert ann.commit().status_code == 204
    assert ann.committed(ZERO, ONE) == [5, 3]


def test_without_a_body_nothing_is_lowered(orders: HttpApp):
    ann = consumer(orders, "ann", "orders")
    ann.poll("?timeout=0&max_records=2")
    assert ann.commit(at(*ZERO, offset=3)).status_code == 204
    assert ann.commit().status_code == 204
    assert ann.committed(ZERO) == [4]


def test_what_was_processed_is_stored_as_one_more_and_what_is_next_as_it_is(orders: HttpApp):
    ann = consumer(orders, "ann", "orders")
    assert ann.commit(at(*ZERO, offset=3, metadata="tea"), at(*ONE, next_offset=2)).status_code == 204
    told = ann.get("/offsets", json=named(ZERO, ONE))
    assert told.headers["content-type"] == V2
    assert told.json() == {
        "offsets": [at(*ZERO, offset=4, metadata="tea"), at(*ONE, offset=2, metadata="")]
    }  # fmt: skip
    assert ann.commit(at(*ZERO, offset=0, metadata=None)).status_code == 204, "the owner may lower it"
    assert ann.get("/offsets", json=named(ZERO)).json() == {"offsets": [at(*ZERO, offset=1, metadata="")]}


def test_no_offsets_are_nothing_to_commit(orders: HttpApp):
    ann = consumer(orders, "ann", "orders")
    ann.poll()
    assert ann.post("/offsets", json={"offsets": []}).status_code == 204
    assert ann.committed(ZERO, ONE) == [-1, -1]


@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        (at(*ONE, offset=3), OUT_OF_RANGE), (at(*ONE, next_offset=4), OUT_OF_RANGE),
        (at(*ONE, offset=2**63 - 1), OUT_OF_RANGE), (at(*ONE, next_offset=2**63 - 1), OUT_OF_RANGE),
        (at(*ONE, offset=2**63), (422, 422)), (at(*ONE, offset=-1), (422, 422)), (at(*ONE, offset=1.0), (422, 422)),
        (at(*ONE, offset="1"), (422, 422)), (at(*ONE, offset=True), (422, 422)), (at(*ONE, offset=None), (422, 422)),
        (at(*ONE), (422, 422)), (at(*ONE, offset=1, next_offset=2), (422, 422)), (at(*ONE, offset=1, x=1), (422, 422)),
        (at(*ZERO, offset=1), (422, 422)), (at(*ONE, offset=1, metadata="x" * 4097), (422, 42207)),
        (at(*ONE, offset=1, metadata=5), (422, 422)), (at("orders", 2, offset=0), (404, 40402)),
        (at("orders", -1, offset=0), (422, 422)), (at("orders", 2**31, offset=0), (422, 422)),
        (at("nothing", 0, offset=0), (404, 40401)), (at("x" * 250, 0, offset=0), (422, 422)),
        (at("", 0, offset=0), (422, 422)), (at("other", 0, next_offset=0), (409, 40904)),
    ],
)  # fmt: skip
def test_a_commit_is_refused_as_a_whole(orders: HttpApp, entry: dict[str, Any], expected: tuple[int, int]):
    ann = consumer(orders, "ann", "orders")
    refused = ann.commit(at(*ZERO, offset=1), entry)
    assert error_code(refused) == expected
    assert len(refused.json()["message"]) < 600
    assert ann.committed(ZERO, ONE) == [-1, -1]


@pytest.mark.parametrize(
    "body",
    [
        b"[]", b"null", b"1", b"{", b'{"offsets": null}', b'{"offsets": {}}', b'{"offsets": [1]}', b'{"x": 1}',
        b'{"partitions": [{"topic": "orders", "partition": 0}]}', b'{"offsets": [], "offsets": []}',
        b'{"offsets": [{"topic": "orders", "topic": "orders", "partition": 0, "offset": 0}]}',
        b'{"offsets": [{"topic": "orders", "partition": 0, "offset": 0, "metadata": "\\ud800"}]}',
        b'{"offsets": [{"topic": "orders", "partition": 0, "offset": NaN}]}', b"\xff", b"[" * 5000,
    ],
)  # fmt: skip
def test_a_body_that_is_not_exactly_right_commits_nothing(orders: HttpApp, body: bytes):
    ann = consumer(orders, "ann", "orders")
    ann.poll()
    assert error_code(ann.post("/offsets", content=body)) == (422, 422)
    assert ann.committed(ZERO, ONE) == [-1, -1]


def test_what_a_route_does_not_take_is_named(orders: HttpApp):
    refused = consumer(orders, "ann", "orders").post("/offsets", json=named(ZERO))
    assert "partitions" in refused.json()["message"]


def test_more_than_can_be_named_at_once_is_refused(orders: HttpApp):
    ann = consumer(orders, "ann", "orders")
    many = [at("orders", number, offset=0) for number in range(10_001)]
    assert error_code(ann.post("/offsets", json={"offsets": many})) == (422, 422)
    assert error_code(ann.post("/offsets", content=b" " * 2_000_000)) == (413, 413)


def test_a_later_instance_goes_on_behind_what_is_committed(orders: HttpApp):
    ann = consumer(orders, "ann", "orders")
    ann.poll("?timeout=0&max_records=2")
    ann.commit()
    ann.delete()
    assert consumer(orders, "bob", "orders").values() == [2, 3, 4, 0, 1, 2]


def test_with_auto_commit_the_next_poll_commits_what_the_last_one_gave(orders: HttpApp):
    ann = consumer(orders, "ann", "orders", auto_commit_enable=True, auto_commit_interval_ms=0)
    ann.poll("?timeout=0&max_records=2")
    assert ann.committed(ZERO) == [-1]
    ann.poll("?timeout=0&max_records=2")
    assert ann.committed(ZERO) == [2]
    ann.delete()
    assert consumer(orders, "bob").committed(ZERO, ONE) == [2, 2], "who leaves is done with what it was given"


def test_a_commit_that_cannot_be_stored_is_no_commit(http_place: Place):
    with HttpApp(http_place.open()) as app:
        make(app, "orders")
        put(app, "orders", 0, 1)
        ann = consumer(app, "ann", "orders")
        ann.poll()
        app.log.close()
        assert ann.commit().status_code == 503


# --- what is committed


def test_partitions_are_asked_for_in_the_body_or_as_pairs_in_the_query(orders: HttpApp):
    ann = consumer(orders, "ann", "orders")
    ann.commit(at(*ONE, offset=0))
    expected = {"offsets": [at(*ONE, offset=1, metadata=""), at(*ZERO, offset=-1, metadata=""),
                            at(*ONE, offset=1, metadata="")]}  # fmt: skip
    body = ann.get("/offsets", json=named(ONE, ZERO, ONE), headers={"content-type": V2})
    query = ann.get("/offsets", params=[*in_query(*ONE), *in_query(*ZERO), *in_query(*ONE)])
    apart = ann.get("/offsets?partition=1&partition=0&topic=orders&partition=1&topic=orders&topic=orders")
    assert body.json() == query.json() == apart.json() == expected
    assert ann.get("/offsets", json=named()).json() == {"offsets": []}


@pytest.mark.parametrize(
    ("query", "body", "expected"),
    [
        ("", None, (422, 422)), ("?topic=orders", None, (422, 422)), ("?partition=0", None, (422, 422)),
        ("?topic=orders&partition=x", None, (422, 422)), ("?topic=orders&partition=-1", None, (422, 422)),
        ("?topic=orders&partition=0&partition=1", None, (422, 422)), ("?topic=orders&partition=2", None, (404, 40402)),
        ("?topic=nothing&partition=0", None, (404, 40401)), ("?topic=&partition=0", None, (404, 40401)),
        ("?topic=orders&partition=0&x=1", None, (422, 422)), ("?topic=%ff&partition=0", None, (422, 422)),
        ("?topic=orders&partition=0", named(ZERO), (422, 422)), ("", {}, (422, 422)), ("", {"x": 1}, (422, 422)),
        ("", named(("orders", 2)), (404, 40402)), ("", {"partitions": [{"topic": "orders"}]}, (422, 422)),
        (f"?topic={'x' * 250}&partition=0", None, (422, 422)),
    ],
)  # fmt: skip
def test_what_cannot_be_asked_for_is_refused(orders: HttpApp, query: str, body: Any, expected: tuple[int, int]):
    ann = consumer(orders, "ann", "orders")
    assert error_code(ann.get(f"/offsets{query}", **({} if body is None else {"json": body}))) == expected


# --- positions


def test_reading_goes_on_where_it_is_told_to(orders: HttpApp):
    ann = consumer(orders, "ann", "orders")
    moved = ann.post("/positions", json={"offsets": [at(*ZERO, offset=3), at(*ONE, offset=1)]})
    assert (moved.status_code, moved.content, moved.headers["lakelog-generation"]) == (204, b"", "1")
    assert ann.values() == [3, 4, 1, 2]
    assert ann.post("/positions/beginning", json=named(ONE)).status_code == 204
    assert ann.values() == [0, 1, 2]
    ann.post("/positions/beginning", json=named(ZERO, ONE, ONE))
    assert ann.post("/positions/end", json=named(ZERO)).status_code == 204
    assert ann.values() == [0, 1, 2]
    assert ann.committed(ZERO, ONE) == [-1, -1]
    assert ann.post("/positions/end", json=named()).status_code == 204
    assert ann.values() == []


def test_a_time_is_the_first_record_at_or_behind_it_and_else_the_end(app: HttpApp):
    make(app, "orders", 2)
    for partition in (0, 1):
        app.log.append("orders", [Record(b"%d" % n, partition=partition, timestamp=NOW + n) for n in range(4)])
    ann = consumer(app, "ann", "orders")
    given = [at(*ZERO, timestamp=NOW + 2), at(*ONE, timestamp=NOW + 4)]
    assert ann.post("/positions", json={"offsets": given}).status_code == 204
    assert ann.values() == [2, 3]
    assert ann.post("/positions", json={"offsets": [at(*ZERO, offset=1), at(*ONE, timestamp=0)]}).status_code == 204
    assert ann.values() == [0, 1, 2, 3, 1, 2, 3]


def test_an_offset_that_the_log_has_not_is_for_the_reset_policy(orders: HttpApp):
    ann = consumer(orders, "ann", "orders")
    assert ann.post("/positions", json={"offsets": [at(*ONE, offset=99)]}).status_code == 204
    assert ann.values("?timeout=0&paused=orders:0") == [0, 1, 2]


@pytest.mark.parametrize(
    "body",
    [
        {"offsets": [at(*ZERO)]}, {"offsets": [at(*ZERO, offset=0, timestamp=0)]}, {"offsets": [at(*ZERO, offset=-1)]},
        {"offsets": [at(*ZERO, timestamp=-1)]}, {"offsets": [at(*ZERO, timestamp=253402300800000)]}, {},
        {"offsets": [at(*ZERO, offset=2**63)]}, {"offsets": [at(*ZERO, offset=0), at(*ZERO, offset=0)]},
        {"offsets": [at(*ZERO, offset=0, metadata="")]}, {"offsets": None}, named(ZERO), [],
    ],
)  # fmt: skip
def test_a_position_that_is_none_moves_nothing(orders: HttpApp, body: Any):
    ann = consumer(orders, "ann", "orders")
    assert error_code(ann.post("/positions", json=body)) == (422, 422)
    assert ann.values("?timeout=0&paused=orders:1") == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("topic", ["other", "nothing"])
def test_in_what_is_not_assigned_nothing_can_be_sought(orders: HttpApp, topic: str):
    """Whether it is there or not, as Karapace has it."""
    ann = consumer(orders, "ann", "orders")
    for path, body in [
        ("/positions", {"offsets": [at(*ZERO, offset=3), at(topic, 0, offset=0)]}),
        ("/positions", {"offsets": [at(*ZERO, offset=3), at(topic, 0, timestamp=0)]}),
        ("/positions/beginning", named((topic, 0))),
        ("/positions/end", named(ZERO, (topic, 0))),
        ("/positions/end", named(ZERO, ("orders", 7))),
    ]:
        refused = ann.post(path, json=body)
        assert error_code(refused) == (409, 40903)
        assert refused.json()["outcome"] == "not_attempted"
    assert ann.values("?timeout=0&paused=orders:1") == [0, 1, 2, 3, 4]
