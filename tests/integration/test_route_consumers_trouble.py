"""Consumer instances when something is wrong below: a disk that hangs, one that refuses, a write of unknown outcome."""

from __future__ import annotations

import asyncio
import errno
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from delta_log import Log
from delta_log.model.errors import StorageRefused
from tests.support.asgi_call import soon
from tests.support.consuming import Consumer, at, consumer, make, named, put
from tests.support.failing_disk import FailingDisk
from tests.support.http_app import HttpApp, error_code
from tests.support.logs import QUIET, Place, crash, eventually
from tests.support.producing import HeldWriter

ZERO, ONE = ("orders", 0), ("orders", 1)
DEADLINE_MS = 200
#: Nobody came to an end of himself by then.
LATE_S = 50.0
Ask = Callable[[HttpApp, Consumer], httpx.Response]

#: Every request that has something to store, made by `ann`, who reads `orders`.
CHANGES: dict[str, Ask] = {
    "create": lambda app, _: app.post("/consumers/g", json={"name": "bob"}),
    "create static": lambda app, _: app.post("/consumers/g", json={"name": "bob", "group.instance.id": "till"}),
    "subscribe": lambda _, ann: ann.post("/subscription", json={"topics": ["orders", "bills"]}),
    "unsubscribe": lambda _, ann: ann.delete("/subscription"),
    "commit": lambda _, ann: ann.commit(at(*ZERO, next_offset=2)),
    "commit what was given": lambda _, ann: ann.commit(),
    "seek": lambda _, ann: ann.post("/positions", json={"offsets": [at(*ZERO, offset=1)]}),
    "seek by time": lambda _, ann: ann.post("/positions", json={"offsets": [at(*ZERO, timestamp=1)]}),
    "seek to the end": lambda _, ann: ann.post("/positions/end", json=named(ZERO)),
    "delete": lambda _, ann: ann.delete(),
}
#: Those that only look, and have to wait for what they are to look at.
LOOKS: dict[str, Ask] = {
    "subscription": lambda _, ann: ann.get("/subscription"),
    "assignments": lambda _, ann: ann.get("/assignments"),
    "committed": lambda _, ann: ann.get("/offsets", json=named(ZERO)),
    "heartbeat": lambda _, ann: ann.post("/heartbeat"),
    "poll": lambda _, ann: ann.get("/records?timeout=0"),
    "a request that is refused": lambda _, ann: ann.commit(at(*ZERO, next_offset=99)),
}


def reading(app: HttpApp, **options: Any) -> Consumer:
    """An instance that was given two of three records, and committed the first."""
    make(app, "orders")
    make(app, "bills")
    put(app, "orders", 0, 1, 2, 3)
    ann = consumer(app, "ann", "orders", **options)
    assert ann.values("?timeout=0&max_records=1") == [1]
    ann.commit()
    assert ann.values("?timeout=0&max_records=1") == [2]
    return ann


def known(app: HttpApp) -> dict[str, Any]:
    return app.get("/groups/g").json()


@contextmanager
def refusing_disk(log: Log, error: Exception) -> Iterator[None]:
    def refuse(*_: object) -> None:
        raise error

    journal = log._running.writer.journal
    real, journal.append = journal.append, refuse  # type: ignore[method-assign, assignment]
    yield
    journal.append = real  # type: ignore[method-assign]


@pytest.mark.parametrize("name", CHANGES)
def test_what_the_disk_does_not_let_end_is_unknown_at_the_deadline_and_there_once_it_ends(http_place: Place, name: str):
    with HttpApp(http_place.open()) as app:
        ann = reading(app)
        before, began = known(app), time.monotonic()
        with HeldWriter(app), app.hurried(DEADLINE_MS):
            unknown = CHANGES[name](app, ann)
            assert error_code(unknown) == (504, 50401)
            assert unknown.json()["outcome"] == "unknown"
            assert time.monotonic() - began < LATE_S
        assert known(app) != before or name.startswith("seek")
        if name.startswith("seek"):
            assert ann.values() == {"seek": [2, 3], "seek by time": [1, 2, 3], "seek to the end": []}[name]


@pytest.mark.parametrize("name", LOOKS)
def test_who_asks_behind_what_the_disk_does_not_let_end_is_answered_at_the_deadline(http_place: Place, name: str):
    with HttpApp(http_place.open()) as app:
        ann = reading(app)
        with HeldWriter(app), app.hurried(DEADLINE_MS):
            assert error_code(CHANGES["commit"](app, ann)) == (504, 50401)
            assert error_code(LOOKS[name](app, ann)) == (504, 50401)
        assert ann.committed(ZERO) == [2]
        assert ann.values() == [3], "nothing was given that nobody saw"


def test_a_poll_that_the_disk_holds_beyond_its_time_ends_a_deadline_later_and_what_it_read_is_given_again(
    http_place: Place,
):
    with HttpApp(http_place.open()) as app:
        ann = reading(app, auto_commit_enable=True, auto_commit_interval_ms=3_600_000)
        inside, go_on, real = threading.Event(), threading.Event(), app.log.read

        def hang(*given: Any, **more: Any) -> Any:
            inside.set()
            go_on.wait(2 * LATE_S)
            return real(*given, **more)

        app.log.read = hang  # type: ignore[method-assign]
        began = time.monotonic()
        with app.hurried(DEADLINE_MS):
            assert error_code(ann.get("/records?timeout=300")) == (504, 50401)
        assert 0.45 < time.monotonic() - began < LATE_S
        assert inside.is_set()
        app.log.read = real  # type: ignore[method-assign]
        go_on.set()
        assert ann.values() == [3]
        assert app.tier.read_room.held == 0


def test_a_poll_that_was_cut_off_leaves_its_member_alive(http_place: Place):
    """It is longer than a session; the second one is for a machine that stands still for all of the first."""
    with HttpApp(http_place.open()) as app:
        reading(app)
        assert any(lives_on(app, session_ms) for session_ms in (600, 6_000))


def lives_on(app: HttpApp, session_ms: int) -> bool:
    ann = consumer(app, "ann", group=f"g{session_ms}", session_timeout_ms=session_ms)
    go_on = threading.Event()
    real = app.log.read

    def hang(*given: Any, **more: Any) -> Any:
        go_on.wait(2 * LATE_S)
        return real(*given, **more)

    app.log.read = hang  # type: ignore[method-assign]
    if not ann.post("/subscription", json={"topics": ["orders"]}).is_success:
        return False
    with app.hurried(DEADLINE_MS):
        cut = ann.get(f"/records?timeout={session_ms - 100}")
    app.log.read = real  # type: ignore[method-assign]
    go_on.set()
    app.run(asyncio.sleep(0.3))
    return cut.status_code == 504 and ann.get("/records?timeout=0").is_success and ann.values() == []


@pytest.mark.parametrize("name", CHANGES)
def test_what_the_disk_refuses_was_not_done_and_goes_on_when_there_is_room_again(http_place: Place, name: str):
    with HttpApp(http_place.open()) as app:
        ann = reading(app)
        before = known(app)
        with refusing_disk(app.log, StorageRefused("the journal", "no space left")):
            refused = CHANGES[name](app, ann)
            assert error_code(refused) == (503, 50303)
            assert (refused.json()["outcome"], refused.json()["retriable"]) == ("not_attempted", True)
            assert int(refused.headers["retry-after"]) >= 1
            assert known(app) == before
            assert "no space left" in app.get("/readyz").json()["message"]
            assert ann.values() in ([3], [2, 3]), "who only reads goes on; what was taken back may be given again"
        assert CHANGES[name](app, ann).status_code in (200, 204)
        assert app.get("/readyz").status_code == 200
    http_place.crash()
    with HttpApp(http_place.open()) as app:
        assert known(app) != before or name.startswith("seek")


@pytest.mark.parametrize("name", CHANGES)
def test_what_the_disk_refused_is_not_there_after_a_restart_either(http_place: Place, name: str):
    with HttpApp(http_place.open()) as app:
        ann = reading(app)
        before = known(app)
        with refusing_disk(app.log, StorageRefused("the journal", "no space left")):
            assert CHANGES[name](app, ann).status_code == 503
    http_place.crash()
    with HttpApp(http_place.open()) as app:
        assert known(app) == before


def test_after_a_write_of_unknown_outcome_nothing_is_stored_until_a_restart_and_everybody_is_told(http_place: Place):
    with HttpApp(http_place.open()) as app:
        ann = reading(app)
        with refusing_disk(app.log, MemoryError("a test")):
            unknown = ann.commit(at(*ZERO, next_offset=2))
        assert error_code(unknown) == (504, 50401)
        assert unknown.json()["outcome"] == "unknown"
        refused = ann.commit(at(*ZERO, next_offset=2))
        assert error_code(refused) == (503, 50303)
        assert refused.json()["outcome"] == "not_attempted"
        ready = app.get("/readyz")
        assert (ready.status_code, ready.json()["ready"]) == (503, False)
        assert "failed in an unforeseen way" in ready.json()["message"]
        assert "lakelog_writes_refused 1" in app.get("/metrics").text
        assert ann.committed(ZERO) == [1], "what is not known to be stored is not shown"
        assert ann.values() == [3], "who only reads goes on"
    http_place.crash()
    with HttpApp(http_place.open()) as app:
        ann = Consumer(app, "ann")
        assert ann.committed(ZERO)[0] in (1, 2)
        assert ann.commit(at(*ZERO, next_offset=3)).status_code == 204
        assert app.get("/readyz").status_code == 200


def test_members_that_wait_while_the_disk_refuses_are_given_what_comes(http_place: Place):
    """A change that fails wakes whoever waits, and nobody is fenced or forgotten by it."""
    with HttpApp(http_place.open()) as app:
        ann = reading(app)
        assert ann.values() == [3]

        async def act() -> list[Any]:
            polling = asyncio.create_task(app.client.get(f"{ann.path}/records?timeout=60000"))
            await soon(lambda: app.tier.watch.polling.open == 1)
            with refusing_disk(app.log, StorageRefused("the journal", "no space left")):
                joins = [app.client.post("/consumers/g", json={"name": f"m{each}"}) for each in range(5)]
                assert {each.status_code for each in await asyncio.gather(*joins)} == {503}
            put(app, "orders", 0, 4)
            return [each["value"] for each in (await polling).json()]

        assert app.run(act()) == [4]
        assert [each["instance_id"] for each in known(app)["members"]] == ["ann"]


def test_a_full_disk_refuses_until_there_is_room_and_a_write_that_cannot_be_taken_back_until_it_can(tmp_path: Path):
    """By the real journal on a disk that fails."""
    disk = FailingDisk()
    log = Log.open(tmp_path / "root", settings=QUIET, disk=disk)
    with HttpApp(log) as app:
        ann = reading(app)
        disk.fail("write_all", code=errno.ENOSPC)
        refused = ann.commit(at(*ZERO, next_offset=2))
        assert error_code(refused) == (503, 50310)
        assert refused.json()["outcome"] == "not_attempted"
        assert app.get("/readyz").status_code == 503
        disk.mend()
        assert ann.commit(at(*ZERO, next_offset=2)).status_code == 204
        eventually(lambda: app.get("/readyz").status_code == 200, "a server that has room again")
        disk.fail("sync_data", "write", "truncate")
        doubtful = ann.commit(at(*ZERO, next_offset=3))
        assert error_code(doubtful) == (504, 50401)
        told = ann.commit(at(*ZERO, next_offset=3))
        assert error_code(told) == (503, 50303)
        assert told.json()["outcome"] == "not_attempted"
        assert "in doubt" in told.json()["message"]
        assert "in doubt" in app.get("/readyz").json()["message"]
        assert ann.committed(ZERO) == [2]
        disk.mend()
        eventually(lambda: app.get("/readyz").status_code == 200, "a server that is ready again")
        assert ann.committed(ZERO) == [2], "what was unknown is cut off"
        assert ann.commit(at(*ZERO, next_offset=3)).status_code == 204
    crash(log)
    with Log.open(tmp_path / "root", settings=QUIET) as log, HttpApp(log) as app:
        assert Consumer(app, "ann").committed(ZERO) == [3]
        assert app.get("/readyz").status_code == 200
