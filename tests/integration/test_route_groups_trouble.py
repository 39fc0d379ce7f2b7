"""Groups over HTTP when something is wrong below: a topic that cannot be read, a disk that refuses, one that hangs."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from delta_log.model.errors import StorageRefused
from tests.integration.test_route_v3_admin import here
from tests.support.group_calls import join, leave, orders
from tests.support.http_app import HttpApp, error_code
from tests.support.logs import Place
from tests.support.producing import HeldWriter


def offset(next_offset: int) -> dict[str, Any]:
    return {"offsets": [{"topic": "orders", "partition": 0, "next_offset": next_offset}]}


def put(app: HttpApp, next_offset: int) -> Any:
    return app.put("/groups/g/offsets", json=offset(next_offset))


def committed(app: HttpApp) -> list[int]:
    return [each["next_offset"] for each in app.get("/groups/g/offsets").json()["offsets"]]


@contextmanager
def refusing_disk(app: HttpApp) -> Iterator[None]:
    def refuse(*_: object) -> None:
        raise StorageRefused("the journal", "no space left")

    journal = app.log._running.writer.journal
    real, journal.append = journal.append, refuse
    yield
    journal.append = real


def test_what_a_topic_that_cannot_be_opened_does_not_say_is_null_and_its_offsets_stay(tmp_path: Path):
    place = Place(tmp_path / "root")
    with HttpApp(place.open()) as app:
        orders(app, partitions=1)
        put(app, 3)
        app.run(app.tier.groups.close())
        app.log.close()
    entry = next((tmp_path / "root/topics/orders/_delta_log").glob("*0.json"))
    entry.write_bytes(gzip.compress(entry.read_bytes()))
    with HttpApp(place.open()) as app:
        (only,) = app.get("/groups/g").json()["partitions"]
        assert (only["next_offset"], only["end_offset"], only["log_start_offset"], only["lag"]) == (3, None, None, None)
        assert error_code(app.get(here(app, "/consumer-groups/g/lags"))) == (404, 404)
        assert "lakelog_consumer_group_lag{" not in app.get("/metrics").text
        for refused in (
            put(app, 4),
            app.post("/groups/g/offsets:reset", json={"to": "latest"}),
            app.post("/groups/g/offsets:reset", json={"timestamp": 5}),
        ):
            assert (refused.status_code, refused.json()["outcome"]) == (503, "not_attempted")
        assert committed(app) == [3]
        assert app.delete("/groups/g").status_code == 204
    place.close()


@pytest.mark.parametrize("act", ["put", "reset", "delete"])
def test_what_the_disk_refuses_was_not_done(app: HttpApp, act: str):
    orders(app, partitions=1)
    put(app, 3)
    with refusing_disk(app):
        if act == "put":
            refused = put(app, 4)
        elif act == "reset":
            refused = app.post("/groups/g/offsets:reset", json={"to": "latest"})
        else:
            refused = app.delete("/groups/g")
        assert error_code(refused) == (503, 50303)
        assert (refused.json()["outcome"], refused.json()["retriable"]) == ("not_attempted", True)
        assert committed(app) == [3]
    assert put(app, 5).status_code == 204
    assert committed(app) == [5]


def test_what_the_disk_does_not_let_end_is_unknown_at_the_deadline_and_there_once_it_ends(http_place: Place):
    with HttpApp(http_place.open()) as app:
        orders(app, partitions=1)
        put(app, 3)
        with HeldWriter(app):
            with app.hurried(200):
                unknown = put(app, 4)
                assert error_code(unknown) == (504, 50401)
                assert unknown.json()["outcome"] == "unknown"
                for path in ("/groups/g", "/groups/g/offsets", here(app, "/consumer-groups/g")):
                    assert error_code(app.get(path)) == (504, 50401)
            assert app.get("/groups").status_code == 200
            assert app.get("/metrics").status_code == 200
        assert committed(app) == [4]


def test_a_static_member_that_is_away_is_shown_as_such(app: HttpApp):
    orders(app, partitions=1)
    join(app, "g", "one", "orders", group_instance_id="till")
    leave(app, "g", "one")
    described = app.get("/groups/g").json()
    (member,) = described["members"]
    assert (member["standing"], member["assigned"]) == ("away", [{"topic": "orders", "partition": 0}])
    assert described["partitions"][0]["owner"] == "one"
    assert error_code(put(app, 1)) == (409, 40906)


def test_what_is_set_is_there_after_a_restart(http_place: Place):
    with HttpApp(http_place.open()) as app:
        orders(app, partitions=1)
        put(app, 3)
        app.post("/groups/g/offsets:reset", json={"shift": 2})
        before = app.get("/groups/g").json()
        app.run(app.tier.groups.close())
        app.log.close()
    with HttpApp(http_place.open()) as again:
        assert again.get("/groups/g").json() == before
        assert committed(again) == [5]
