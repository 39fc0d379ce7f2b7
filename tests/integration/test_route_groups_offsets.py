"""Offsets of groups set over HTTP: as they are given, and by a reset."""

from __future__ import annotations

from typing import Any

import pytest

from ingest_api.routes.groups import native_reset
from tests.support.group_calls import assign, commit, join, leave, orders, poll
from tests.support.http_app import HttpApp, error_code

PATH = "/groups/g/offsets"
INT64_MAX = 2**63 - 1


def offset(partition: int, next_offset: Any, **more: object) -> dict[str, object]:
    return {"topic": "orders", "partition": partition, "next_offset": next_offset, **more}


def put(app: HttpApp, *offsets: dict[str, object]) -> Any:
    return app.put(PATH, json={"offsets": list(offsets)})


def reset(app: HttpApp, **asked: Any) -> Any:
    return app.post(f"{PATH}:reset", json=asked)


def committed(app: HttpApp) -> dict[int, int]:
    return {each["partition"]: each["next_offset"] for each in app.get(PATH).json()["offsets"]}


def moves(answer: Any) -> dict[int, tuple[int | None, int]]:
    assert answer.status_code == 200, answer.text
    return {each["partition"]: (each["before"], each["after"]) for each in answer.json()["partitions"]}


class TestPut:
    def test_offsets_are_stored_as_they_are_given_and_read_from(self, app: HttpApp):
        orders(app)
        assert put(app, offset(0, 3, metadata="till 7"), offset(1, 0)).status_code == 204
        given = app.get(PATH).json()["offsets"]
        assert all(each.pop("committed_at_ms") > 1_700_000_000_000 for each in given)
        assert given == [offset(0, 3, metadata="till 7"), offset(1, 0, metadata="")]
        join(app, "g", "one", "orders")
        poll(app, "g", "one")
        commit(app, "g", "one", p0=9)
        assert committed(app) == {0: 9, 1: 0}

    def test_what_is_not_named_stays_as_it_is(self, app: HttpApp):
        orders(app)
        put(app, offset(0, 3), offset(1, 5))
        put(app, offset(1, 10, metadata=None))
        assert committed(app) == {0: 3, 1: 10}

    @pytest.mark.parametrize("manual", [False, True])
    def test_nothing_is_set_while_a_member_reads(self, app: HttpApp, *, manual: bool):
        orders(app)
        put(app, offset(0, 3))
        join(app, "g", "one")
        put(app, offset(0, 4))
        if manual:
            assign(app, "g", "one", 1)
        else:
            join(app, "g", "two", "orders")
        for refused in (put(app, offset(0, 5)), reset(app, to="latest"), reset(app, to="latest", dry_run=True)):
            assert error_code(refused) == (409, 40906)
            assert (refused.json()["outcome"], refused.json()["members"]) == ("not_attempted", 1)
        assert committed(app) == {0: 4}
        leave(app, "g", "one")
        if not manual:
            leave(app, "g", "two")
        assert put(app, offset(0, 5)).status_code == 204

    @pytest.mark.parametrize(
        ("wrong", "status", "code"),
        [
            (offset(0, 11), 422, 42206),
            (offset(0, INT64_MAX), 422, 42206),
            (offset(0, 1, metadata="x" * 4097), 422, 42207),
            (offset(0, 1, metadata="ü" * 2049), 422, 42207),
            (offset(2, 1), 404, 40402),
            (offset(2**31 - 1, 1), 404, 40402),
            ({**offset(0, 1), "topic": "none"}, 404, 40401),
            ({**offset(0, 1), "topic": ""}, 404, 40401),
            ({**offset(0, 1), "topic": "../x"}, 404, 40401),
            ({**offset(0, 1), "topic": "__consumer_offsets"}, 404, 40401),
            ({**offset(0, 1), "topic": "x" * 250}, 422, 422),
            (offset(0, -1), 422, 422),
            (offset(0, INT64_MAX + 1), 422, 422),
            (offset(0, "3"), 422, 422),
            (offset(0, True), 422, 422),
            (offset(0, 3.5), 422, 422),
            (offset(0, None), 422, 422),
            (offset(-1, 1), 422, 422),
            (offset(2**31, 1), 422, 422),
            (offset(0, 1, metadata=7), 422, 422),
            (offset(0, 1, offset=1), 422, 422),
            ({"topic": "orders", "partition": 0}, 422, 422),
            (offset(1, 2), 422, 422),
        ],
    )
    def test_one_that_cannot_be_refuses_all(self, app: HttpApp, wrong: dict[str, object], status: int, code: int):
        orders(app)
        assert error_code(put(app, offset(1, 1), wrong)) == (status, code)
        assert app.get("/groups").json() == {"groups": []}

    @pytest.mark.parametrize(
        "body",
        [
            b"",
            b"{}",
            b"[]",
            b"{",
            b"null",
            b'{"offsets": []}',
            b'{"offsets": null}',
            b'{"offsets": {}}',
            b'{"offsets": [null]}',
            b'{"offsets": [{"topic": "orders", "partition": 0, "next_offset": 1}], "x": 1}',
            b'{"offsets": [{"topic": "orders", "partition": 0, "next_offset": 1, "next_offset": 2}]}',
            b'{"offsets": [{"topic": "orders", "partition": 0, "next_offset": 1, "metadata": "\\ud800"}]}',
            b'{"offsets": [{"topic": "orders", "partition": 0, "next_offset": 1e0}]}',
            b"[" * 100_000,
            b"\xff",
        ],
    )
    def test_a_malformed_body_is_refused(self, app: HttpApp, body: bytes):
        orders(app)
        assert error_code(app.put(PATH, content=body)) == (422, 422)
        assert app.get("/groups").json() == {"groups": []}

    def test_a_body_of_another_type_is_refused_and_those_of_v2_are_taken(self, app: HttpApp):
        orders(app)
        body = b'{"offsets": [{"topic": "orders", "partition": 0, "next_offset": 1}]}'
        assert error_code(app.put(PATH, content=body, headers={"content-type": "text/plain"})) == (415, 415)
        for media in ("application/json", "application/vnd.kafka.v2+json", "application/vnd.kafka+json"):
            assert app.put(PATH, content=body, headers={"content-type": media}).status_code == 204

    def test_a_request_has_a_bounded_number_of_partitions(self, app: HttpApp):
        orders(app)
        assert error_code(put(app, *(offset(each, 0) for each in range(10_001)))) == (422, 422)


class TestReset:
    @pytest.fixture
    def app(self, app: HttpApp) -> HttpApp:
        """A group that is at 6 of partition 0, whose log is 2 to 10, and has nothing of partition 1."""
        orders(app)
        put(app, offset(0, 6))
        answer = app.post("/topics/orders/partitions/0/records:delete", json={"before_offset": 2})
        assert answer.status_code == 200
        return app

    @pytest.mark.parametrize(
        ("asked", "after"),
        [
            ({"to": "earliest"}, 2),
            ({"to": "latest"}, 10),
            ({"offset": 5}, 5),
            ({"offset": 0}, 2),
            ({"offset": INT64_MAX}, 10),
            ({"shift": -1}, 5),
            ({"shift": 0}, 6),
            ({"shift": 3}, 9),
            ({"shift": -INT64_MAX}, 2),
            ({"shift": INT64_MAX}, 10),
            ({"timestamp": 0}, 2),
            ({"timestamp": 1007}, 7),
            ({"timestamp": 1010}, 10),
            ({"timestamp": 253402300799999}, 10),
        ],
    )
    def test_a_reset_goes_where_it_says_and_stays_in_the_log(self, app: HttpApp, asked: dict[str, Any], after: int):
        assert moves(reset(app, **asked, dry_run=True)) == {0: (6, after)}
        assert committed(app) == {0: 6}
        answer = reset(app, **asked)
        assert moves(answer) == {0: (6, after)}
        assert (answer.json()["group"], answer.json()["dry_run"]) == ("g", False)
        assert committed(app) == {0: after}

    def test_it_is_of_all_partitions_of_topics_or_of_given_ones_or_of_all_that_have_an_offset(self, app: HttpApp):
        assert moves(reset(app, to="latest", topics=["orders"], dry_run=True)) == {0: (6, 10), 1: (None, 10)}
        one = [{"topic": "orders", "partition": 1}]
        assert moves(reset(app, to="latest", partitions=one)) == {1: (None, 10)}
        assert moves(reset(app, to="earliest", topics=["orders", "orders"])) == {0: (6, 2), 1: (10, 0)}
        assert moves(reset(app, offset=4)) == {0: (2, 4), 1: (0, 4)}

    def test_a_dry_run_says_so_and_changes_nothing(self, app: HttpApp):
        before = app.get("/groups/g").json()
        assert reset(app, to="earliest", topics=["orders"], dry_run=True).json()["dry_run"] is True
        assert app.get("/groups/g").json() == before

    def test_what_has_no_offset_cannot_be_shifted_and_then_nothing_is(self, app: HttpApp):
        assert error_code(reset(app, shift=1, topics=["orders"])) == (422, 42206)
        assert committed(app) == {0: 6}

    def test_a_group_without_offsets_has_nothing_to_reset(self, app: HttpApp):
        join(app, "fresh", "one")
        answer = app.post("/groups/fresh/offsets:reset", json={"to": "earliest"})
        assert answer.json() == {"group": "fresh", "dry_run": False, "partitions": []}

    def test_a_group_that_is_not_there_is_not_made(self, app: HttpApp):
        for dry_run in (True, False):
            asked = {"to": "earliest", "topics": ["orders"], "dry_run": dry_run}
            assert error_code(app.post("/groups/none/offsets:reset", json=asked)) == (404, 40404)
        assert [each["group"] for each in app.get("/groups").json()["groups"]] == ["g"]

    @pytest.mark.parametrize("target", [{"to": "latest"}, {"timestamp": 5}])
    @pytest.mark.parametrize(
        ("chosen", "status", "code"),
        [
            ({"topics": ["none"]}, 404, 40401),
            ({"topics": ["orders", "../orders"]}, 404, 40401),
            ({"topics": ["__consumer_offsets"]}, 404, 40401),
            ({"partitions": [{"topic": "none", "partition": 0}]}, 404, 40401),
            ({"partitions": [{"topic": "__consumer_groups", "partition": 0}]}, 404, 40401),
            ({"partitions": [{"topic": "orders", "partition": 2}]}, 404, 40402),
            ({"partitions": [{"topic": "orders", "partition": 0}] * 2}, 422, 422),
            ({"topics": ["x" * 250]}, 422, 422),
            ({"topics": []}, 422, 422),
            ({"partitions": []}, 422, 422),
            ({"topics": ["orders"], "partitions": [{"topic": "orders", "partition": 0}]}, 422, 422),
            ({"partitions": [{"topic": "orders"}]}, 422, 422),
            ({"partitions": [{"topic": "orders", "partition": 0, "offset": 1}]}, 422, 422),
            ({"topics": "orders"}, 422, 422),
        ],
    )
    def test_what_cannot_be_chosen_is_refused(
        self, app: HttpApp, target: dict[str, Any], chosen: dict[str, Any], status: int, code: int
    ):
        assert error_code(reset(app, **target, **chosen)) == (status, code)
        assert committed(app) == {0: 6}

    @pytest.mark.parametrize(
        "asked",
        [
            {},
            {"dry_run": True},
            {"to": "earliest", "offset": 1},
            {"timestamp": 1, "shift": 1},
            {"to": "EARLIEST"},
            {"to": "beginning"},
            {"to": None},
            {"offset": -1},
            {"offset": "1"},
            {"offset": True},
            {"offset": INT64_MAX + 1},
            {"shift": 1.5},
            {"shift": INT64_MAX + 1},
            {"timestamp": -1},
            {"timestamp": 253402300800000},
            {"to": "latest", "dry_run": "true"},
            {"to": "latest", "dry_run": None},
            {"to": "latest", "x": 1},
        ],
    )
    def test_where_to_is_said_exactly_once_and_as_it_is_declared(self, app: HttpApp, asked: dict[str, Any]):
        assert error_code(reset(app, **asked)) == (422, 422)
        assert committed(app) == {0: 6}

    @pytest.mark.parametrize("body", [b"", b"[]", b"{", b'{"to": "latest", "to": "latest"}', b"\xff"])
    def test_a_malformed_body_is_refused(self, app: HttpApp, body: bytes):
        assert error_code(app.post(f"{PATH}:reset", content=body)) == (422, 422)
        assert committed(app) == {0: 6}

    def test_a_reset_is_of_a_bounded_number_of_partitions(self, app: HttpApp, monkeypatch: pytest.MonkeyPatch):
        monkeypatch.setattr(native_reset, "MOST_PARTITIONS", 1)
        refused = reset(app, to="latest", topics=["orders"])
        assert error_code(refused) == (422, 422)
        assert "name fewer" in refused.json()["message"]
        assert committed(app) == {0: 6}
