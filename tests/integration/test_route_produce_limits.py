"""Produce requests that meet a bound: of time, of memory, of the disk. What they are told of their records is true."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from delta_log import Limits, Record
from tests.support.asgi_call import AsgiCall, soon
from tests.support.http_app import HttpApp, error_code
from tests.support.logs import Place, eventually, hold_tables, replace_settings
from tests.support.producing import ONE, HeldWriter, place, stored


@pytest.fixture
def orders(app: HttpApp) -> HttpApp:
    """With a topic of three partitions."""
    app.log.create_topic("orders", 3)
    return app


def test_what_is_accepted_without_acks_has_a_bound(http_place: Place):
    with HttpApp(http_place.open(), max_bodies_bytes=64 * 1024, max_body_bytes=64 * 1024) as app:
        app.log.create_topic("orders")
        app.post("/topics/orders", json=ONE)
        with HeldWriter(app):
            answers = [app.post("/topics/orders?acks=0", json=ONE) for _ in range(100)]
        refused = [answer for answer in answers if answer.status_code != 202]
        assert error_code(refused[0]) == (503, 50309)
        assert refused[0].headers["retry-after"] == "1"
        assert refused[0].json()["outcome"] == "not_attempted"
        accepted = len(answers) - len(refused)
        assert 10 < accepted < 100
        app.run(soon(lambda: stored(app) == 1 + accepted))
        eventually(
            lambda: app.post("/topics/orders?acks=0", json=ONE).status_code == 202, "the end of what was accepted"
        )


def test_a_request_that_takes_too_long_is_unknown_and_may_be_stored(http_place: Place):
    with HttpApp(http_place.open(), request_timeout_ms=50) as app:
        app.log.create_topic("orders")
        app.log.append("orders", [Record(b"0")])
        with HeldWriter(app):
            answer = app.post("/topics/orders", json=ONE)
        assert error_code(answer) == (504, 50401)
        assert (answer.json()["outcome"], answer.json()["retriable"]) == ("unknown", True)
        eventually(lambda: stored(app) == 2, "the record that was under way")


def test_more_records_than_a_request_may_have_are_refused(http_place: Place):
    with HttpApp(http_place.open(), max_records=3) as app:
        app.log.create_topic("orders")
        assert error_code(app.post("/topics/orders", json={"records": [{}] * 4})) == (422, 422)
        assert app.post("/topics/orders", json={"records": [{}] * 3}).status_code == 200
        assert stored(app) == 3


def test_to_wait_for_the_table_is_answered_with_its_version(http_place: Place):
    with HttpApp(http_place.open(), request_timeout_ms=60_000) as app:
        app.log.create_topic("orders", 2)
        answer = app.post("/topics/orders?wait=table", json={"records": [{"value": 1}, {"value": 2}]})
        assert answer.status_code == 200
        version = int(answer.headers["lakelog-table-version"])
        assert version >= app.log._running.catalog.live("orders").table.snapshot.version - 1
        assert sum(tail.table_offset for tail in app.log._running.catalog.live("orders").tails) == 2
        assert "lakelog-table-version" not in app.post("/topics/orders", json=ONE).headers


def test_a_table_that_is_stuck_is_pending_when_the_time_of_the_request_is_over(http_place: Place):
    with HttpApp(http_place.open()) as app:
        app.log.create_topic("orders")
        app.log.append("orders", [Record(b"0")])
        app.log.flush("orders")
        fault = http_place.fail("create", "orders/_delta_log/", "refused", times=1_000_000)
        for time_ms in (300, 20_000):  # on a machine that stands still the first may be over before anything is stored
            before = stored(app)
            with app.hurried(time_ms):
                answer = app.post("/topics/orders?wait=table", json=ONE)
            if answer.status_code != 504:
                break
        assert answer.status_code == 200
        assert answer.headers["lakelog-table-version"] == "pending"
        assert answer.json()["offsets"] == [place(0, before)]
        assert stored(app) == before + 1
        fault.times = 0


def test_a_wait_for_the_table_ends_when_the_server_stops(http_place: Place):
    with HttpApp(http_place.open(), request_timeout_ms=60_000) as app:
        hold_tables(app.log)
        app.log.create_topic("orders")
        app.log.append("orders", [Record(b"0")])

        async def stopping() -> None:
            async with AsgiCall(
                app.asgi, "POST", "/topics/orders?wait=table", body=b'{"records":[{"value":1}]}'
            ) as call:
                await soon(lambda: stored(app) == 2)
                app.tier.closing.set()
                status, headers = await call.head()
                assert (status, headers["lakelog-table-version"]) == (200, "pending")
                assert await call.body()

        app.run(stopping())


def test_a_server_that_is_behind_says_when_to_come_again(http_place: Place):
    log = http_place.open(replace_settings(limits=Limits(topic_bytes=1000, total_bytes=2000)))
    with HttpApp(log) as app:
        log.create_topic("orders")
        hold_tables(log)
        answers = [app.post("/topics/orders", json={"records": [{"value": "x" * 400}]}) for _ in range(5)]
        refused = [answer for answer in answers if answer.status_code != 200]
        assert error_code(refused[0]) == (503, 50301)
        assert refused[0].headers["retry-after"] == "1"
        assert refused[0].json()["outcome"] == "not_attempted"
        assert refused[0].json()["retriable"] is True
        assert stored(app) == len(answers) - len(refused)
        assert error_code(app.post("/topics/orders?acks=0", json={"records": [{"value": "x" * 900}]})) == (503, 50301)


def test_bodies_that_fill_the_memory_are_refused_and_come_again(http_place: Place):
    with HttpApp(http_place.open(), max_body_bytes=1024 * 1024, max_bodies_bytes=1024 * 1024) as app:
        app.log.create_topic("orders")

        async def crowded() -> None:
            large = {"content-length": str(1024 * 1024)}
            most = b" " * (1024 * 1024)
            async with AsgiCall(app.asgi, "POST", "/topics/orders", headers=large, body=most, more=True):
                await soon(lambda: app.tier.bodies.held == 1024 * 1024)
                async with AsgiCall(app.asgi, "POST", "/topics/orders", headers=large, more=True) as second:
                    status, headers = await second.head()
                    assert (status, headers["retry-after"]) == (503, "1")
                assert (await app.client.post("/topics/orders", json=ONE)).status_code == 200
            assert app.tier.bodies.held == 0
            typed = {"Content-Type": "application/json"}
            blank = await app.client.post("/topics/orders", content=b" " * 900_000, headers=typed)
            assert blank.status_code == 422
            assert app.tier.bodies.held == 0

        app.run(crowded())
        assert stored(app) == 1


def test_a_body_that_is_too_large_is_refused_early_and_while_it_comes(http_place: Place):
    with HttpApp(http_place.open(), max_body_bytes=64 * 1024) as app:
        app.log.create_topic("orders")

        async def too_large() -> None:
            announced = {"content-length": str(64 * 1024 + 1)}
            async with AsgiCall(app.asgi, "POST", "/topics/orders", headers=announced, more=True) as call:
                assert (await call.head())[0] == 413
            async with AsgiCall(app.asgi, "POST", "/topics/orders", more=True) as call:
                for _ in range(9):
                    call.give(b" " * 8 * 1024, more=True)
                assert (await call.head())[0] == 413
            assert app.tier.bodies.held == 0

        app.run(too_large())
        assert stored(app) == 0


def test_a_client_that_leaves_within_its_request_stores_nothing(orders: HttpApp):
    async def leaving() -> None:
        async with AsgiCall(orders.asgi, "POST", "/topics/orders", body=b'{"records":[{"value":1}]}', more=True):
            await asyncio.sleep(0)
        assert orders.tier.bodies.held == 0
        assert orders.tier.watch.routes["produce"].gone == 1

    orders.run(leaving())
    assert stored(orders) == 0


def test_a_storage_that_refuses_is_not_attempted(tmp_path: Any):
    """A journal that cannot be written any more."""
    made = Place(tmp_path / "root")
    with HttpApp(made.open()) as app:
        app.log.create_topic("orders")
        app.post("/topics/orders", json=ONE)
        app.log._running.writer._lose_track(ValueError("a test"))
        answer = app.post("/topics/orders", json=ONE)
        assert error_code(answer) == (503, 50303)
        assert answer.json()["outcome"] == "not_attempted"
    made.close()


def test_an_append_whose_outcome_is_lost_is_unknown(http_place: Place, monkeypatch: pytest.MonkeyPatch):
    with HttpApp(http_place.open()) as app:
        app.log.create_topic("orders")
        app.post("/topics/orders", json=ONE)
        whole = app.log._running.journal.append

        def lost(*given: Any) -> Any:
            whole(*given)
            raise OSError("a test")

        monkeypatch.setattr(app.log._running.journal, "append", lost)
        answer = app.post("/topics/orders", json=ONE)
        assert error_code(answer) == (504, 50401)
        assert answer.json()["outcome"] == "unknown"
