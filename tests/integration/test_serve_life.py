"""The life of a server around an app: it listens before the log is open, and ends in order and in time.

It is long, as a start and a stop can be interrupted in many places, and each is a story.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import signal
import socket
import sys
import threading
from collections.abc import Awaitable, Callable, Generator
from pathlib import Path
from typing import Any

import httpx
import pytest
import uvloop

from delta_log import Log
from delta_log.model.errors import RootInUse, StorageRefused
from ingest_api.config.settings import ServerSettings
from ingest_api.server import open as opening
from ingest_api.server import server as running
from ingest_api.server.listener import CannotListen, listen, url_of
from ingest_api.server.server import DONE, FAILED, FORCED, Serving
from ingest_api.web.context import ServerContext
from ingest_api.web.request import json_reply, send_reply

DEADLINE_S = 60.0
Act = Callable[[ServerContext], Awaitable[None]]


@pytest.fixture(autouse=True)
def _interpreter_as_before() -> Generator[None]:
    threshold, interval = gc.get_threshold(), sys.getswitchinterval()
    yield
    gc.set_threshold(*threshold)
    gc.unfreeze()
    sys.setswitchinterval(interval)


async def at_once(_tier: ServerContext) -> None:
    """The app does nothing but answer."""


class Life:
    """A server with an app of one route, which does `act` and answers; `opened` holds back the opening of the log."""

    def __init__(self, place: Path, act: Act = at_once, **settings: Any) -> None:
        self.settings = ServerSettings(data=str(place), host="127.0.0.1", port=0, access_log="off", **settings)
        self.opened = threading.Event()
        self.opened.set()
        self.log: Log | None = None
        #: once for each request that is being worked on
        self.asked = asyncio.Semaphore(0)
        self.announced: list[str] = []
        self.is_ready = asyncio.Event()
        self.listener = listen("127.0.0.1", 0)
        self.url = url_of(self.listener)
        self.act = act
        self.serving = Serving(self.settings, self.listener, self, self._make_app, self._open)
        self.task: asyncio.Task[int] | None = None

    def listening(self, url: str) -> None:
        self.announced.append(f"listening on {url}")

    def ready(self, url: str) -> None:
        self.announced.append("ready")
        self.is_ready.set()

    async def start(self) -> None:
        self.task = asyncio.create_task(self.serving.run())
        await asyncio.wait_for(self.is_ready.wait(), DEADLINE_S)

    async def end(self) -> int:
        assert self.task is not None
        return await asyncio.wait_for(self.task, DEADLINE_S)

    def _open(self, settings: ServerSettings) -> Log:
        assert self.opened.wait(DEADLINE_S)
        self.log = opening.open_log_of(settings)
        return self.log

    def _make_app(self, tier: ServerContext) -> Any:
        async def app(scope: Any, receive: Any, send: Any) -> None:
            self.asked.release()
            await self.act(tier)
            await send_reply(send, json_reply({"topics": tier.log.topics()}), [])

        return app


def live(story: Callable[[], Any]) -> None:
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(story())


async def ask(life: Life, path: str = "/topics", method: str = "GET") -> httpx.Response:
    async with httpx.AsyncClient(base_url=life.url, timeout=DEADLINE_S) as client:
        return await client.request(method, path)


async def until_nobody_listens(life: Life) -> None:
    port = int(life.url.rpartition(":")[2])
    async with asyncio.timeout(DEADLINE_S):
        while True:
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", port)
            except ConnectionRefusedError:
                return
            except ConnectionResetError:
                continue
            writer.close()
            await asyncio.sleep(0.01)


def is_free(place: Path) -> bool:
    """Nobody owns the log there."""
    Log.open(place).close()
    return True


def test_until_the_log_is_open_it_says_that_it_lives_and_that_it_is_not_ready(tmp_path: Path):
    async def story() -> None:
        life = Life(tmp_path)
        life.opened.clear()
        starting = asyncio.create_task(life.start())
        assert (await ask(life, "/healthz")).status_code == 200
        assert (await ask(life, "/metrics")).status_code == 200
        ready = await ask(life, "/readyz")
        assert (ready.status_code, ready.json()["ready"]) == (503, False)
        assert ready.json()["reasons"] == ["the log is being recovered"]
        for path, method in (("/topics", "GET"), ("/topics/a", "POST"), ("/healthz/x", "GET"), ("/", "DELETE")):
            refused = await ask(life, path, method)
            assert refused.status_code == 503
            assert refused.headers["retry-after"] == "1"
            assert refused.json()["outcome"] == "not_attempted"
            assert refused.json()["retriable"] is True
        life.opened.set()
        await starting
        assert (await ask(life)).json() == {"topics": []}
        assert life.announced == [f"listening on {life.url}", "ready"]
        life.serving.stop()
        assert await life.end() == DONE

    live(story)


def test_a_log_that_cannot_be_opened_ends_it_with_that_error_and_gives_the_port_back(tmp_path: Path):
    async def story() -> None:
        life = Life(tmp_path)
        with Log.open(tmp_path), pytest.raises(RootInUse):
            await life.serving.run()
        assert life.announced == []
        listen("127.0.0.1", int(life.url.rpartition(":")[2])).close()

    live(story)


def test_a_stop_while_the_log_is_being_opened_lets_it_go_again(tmp_path: Path):
    async def story() -> None:
        life = Life(tmp_path)
        life.opened.clear()
        life.task = asyncio.create_task(life.serving.run())
        assert (await ask(life, "/healthz")).status_code == 200
        life.serving.stop()
        life.opened.set()
        assert await life.end() == DONE
        assert "ready" not in life.announced
        assert is_free(tmp_path)

    live(story)


def test_a_stop_finishes_what_was_accepted_and_closes_the_log_after_it(tmp_path: Path):
    async def story() -> None:
        go_on = asyncio.Event()

        async def slow(_tier: ServerContext) -> None:
            await go_on.wait()

        life = Life(tmp_path, slow)
        await life.start()
        request = asyncio.create_task(ask(life))
        await life.asked.acquire()
        life.serving.stop()
        await until_nobody_listens(life)
        go_on.set()
        assert (await request).json() == {"topics": []}
        assert await life.end() == DONE
        assert is_free(tmp_path)

    live(story)


def test_a_stop_wakes_whoever_waits_for_something_that_may_never_come(tmp_path: Path):
    async def story() -> None:
        async def wait_for_the_end(tier: ServerContext) -> None:
            await tier.closing.wait()

        life = Life(tmp_path, wait_for_the_end, drain_timeout_ms=60_000)
        await life.start()
        requests = [asyncio.create_task(ask(life)) for _ in range(20)]
        for _ in requests:
            await life.asked.acquire()
        life.serving.stop()
        assert await life.end() == DONE
        assert [(await request).status_code for request in requests] == [200] * 20

    live(story)


def test_a_request_that_does_not_end_is_cut_and_the_log_is_closed_in_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Of a minute requests may take a hundredth here: what is left is enough for the tables on any machine."""
    monkeypatch.setattr(running, "_FOR_REQUESTS", 0.01)

    async def story() -> None:
        cut = asyncio.Event()

        async def never(_tier: ServerContext) -> None:
            try:
                await asyncio.Event().wait()
            finally:
                cut.set()

        life = Life(tmp_path, never, drain_timeout_ms=60_000)
        await life.start()
        request = asyncio.create_task(ask(life))
        await life.asked.acquire()
        life.serving.stop()
        assert await life.end() == DONE
        assert cut.is_set()
        assert is_free(tmp_path)
        answer = await request
        assert answer.status_code >= 500
        assert answer.json()["outcome"] == "unknown"

    live(story)


def test_tables_that_do_not_come_to_an_end_are_left_to_the_next_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    left: list[int] = []
    monkeypatch.setattr(running, "_leave_now", left.append)
    go_on = threading.Event()

    async def story() -> None:
        life = Life(tmp_path, drain_timeout_ms=300)
        await life.start()
        assert life.log is not None
        close = life.log.close
        life.log.close = lambda: (go_on.wait(DEADLINE_S), close())  # type: ignore[method-assign, return-value]
        life.serving.stop()
        assert await life.end() == FAILED
        go_on.set()

    with caplog.at_level(logging.ERROR, "lakelog.server"):
        live(story)
    assert left == [FAILED]
    assert "the next start goes on" in caplog.text


def test_the_first_interrupt_stops_and_the_second_leaves_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    left: list[int] = []
    monkeypatch.setattr(running, "_leave_now", left.append)

    async def story() -> None:
        life = Life(tmp_path)
        await life.start()
        signal.raise_signal(signal.SIGINT)
        await life.serving._closing.wait()
        assert left == []
        signal.raise_signal(signal.SIGTERM)
        signal.raise_signal(signal.SIGINT)
        assert await life.end() == DONE
        assert left == [FORCED]

    live(story)


def test_what_the_start_made_is_set_aside_from_collections(tmp_path: Path):
    async def story() -> None:
        life = Life(tmp_path)
        await life.start()
        assert gc.get_freeze_count() > 10_000
        assert gc.get_threshold()[0] > 700
        life.serving.stop()
        await life.end()

    live(story)


def test_the_log_is_told_what_the_settings_say():
    told = opening.log_settings(
        ServerSettings(
            untabled_memory_bytes=1,
            untabled_topic_bytes=2,
            untabled_total_bytes=3,
            tail_bytes=4,
            table_workers=5,
            files_per_second=6,
            producer_id_expiration_ms=7,
            transactional_id_expiration_ms=9,
            transaction_max_timeout_ms=10,
            transaction_max_bytes=11,
            topic_defaults={"retention.ms": 8},
        )
    )
    assert (told.limits.memory_bytes, told.limits.topic_bytes, told.limits.total_bytes) == (1, 2, 3)
    assert (told.tail_bytes, told.table_workers, told.files_per_second, told.producer_expiration_ms) == (4, 5, 6.0, 7)
    assert told.topic_defaults == {"retention.ms": 8}
    assert told.max_block_s == 0.0
    bounds = told.transactions
    assert (bounds.expiration_ms, bounds.most_timeout_ms, bounds.timeout_ms, bounds.most_bytes) == (9, 10, 10, 11)


def test_the_wire_is_told_what_the_settings_say():
    told = opening.wire_limits(
        ServerSettings(
            max_head_bytes=1,
            max_head_fields=2,
            first_request_timeout_ms=3,
            head_timeout_ms=4,
            body_timeout_ms=5,
            min_body_bytes_per_second=9,
            body_deadline_ms=10,
            keep_alive_timeout_ms=6,
            write_timeout_ms=7,
            max_connections=8,
        )
    )
    assert (told.head_bytes, told.head_fields, told.connections) == (1, 2, 8)
    assert (told.idle_first_s, told.head_s, told.body_grace_s) == (0.003, 0.004, 0.005)
    assert (told.body_bytes_per_s, told.body_deadline_s) == (9, 0.010)
    assert (told.keep_alive_s, told.write_stall_s) == (0.006, 0.007)


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (PermissionError(13, "Permission denied", "/x"), "Permission denied"),
        (OSError("odd"), "odd"),
        (StorageRefused("lakelog.json", "why"), "lakelog.json was refused by the store: why"),
    ],
)
def test_a_directory_that_the_system_refuses_is_named_with_its_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception, reason: str
):
    def refuse(*_: object, **__: object) -> Log:
        raise error

    monkeypatch.setattr(Log, "open", refuse)
    with pytest.raises(opening.CannotOpen) as refused:
        opening.open_log_of(ServerSettings(data=str(tmp_path)))
    assert str(refused.value) == f"the data directory {tmp_path} cannot be used: {reason}"


def test_a_port_in_use_and_a_host_that_is_not_ours_are_one_sentence_each():
    with listen("127.0.0.1", 0) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(CannotListen, match=f"port {port} of 127.0.0.1 is in use by another program"):
            listen("127.0.0.1", port)
    with pytest.raises(CannotListen, match=r"the host 192\.0\.2\.1 is no address of this machine"):
        listen("192.0.2.1", 0)
    with pytest.raises(CannotListen, match=r"the host 'no\.such\.host\.invalid' is not known here"):
        listen("no.such.host.invalid", 0)


@pytest.mark.parametrize(("host", "shown"), [("0.0.0.0", "127.0.0.1"), ("127.0.0.1", "127.0.0.1"), ("::1", "[::1]")])
def test_the_url_is_one_that_reaches_it_from_this_machine(host: str, shown: str):
    if ":" in host and not socket.has_ipv6:
        return
    with listen(host, 0) as listener:
        assert url_of(listener) == f"http://{shown}:{listener.getsockname()[1]}"
