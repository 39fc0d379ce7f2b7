"""The HTTP tier in process: its real app over a real log, called without a socket.

    def test_something(app: HttpApp):
        assert app.get("/topics").json() == []

The fixture is known to the integration tests by their conftest.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Generator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, Self, TypeVar

import httpx
import pytest

from delta_log import Log
from ingest_api.config.settings import ServerSettings
from ingest_api.server.app import create_app, list_operations
from ingest_api.server.open import close_groups, open_groups
from ingest_api.web.body_reader import Bodies
from ingest_api.web.context import ServerContext
from ingest_api.web.counters import RequestCounters
from ingest_api.web.openapi import document
from ingest_api.web.read_budget import ReadRoom
from ingest_api.web.route_spec import Operation
from tests.support.conformance import Conformance
from tests.support.logs import Place, no_thread_left

NAME: Final = "lakelog.test"
BASE: Final = f"http://{NAME}"
T = TypeVar("T")
_DOCUMENTS: dict[tuple[tuple[str, str], ...], Conformance] = {}


class HttpApp:
    """A client and its server, with a loop of their own: calls block; `run` is for what must be several at once."""

    def __init__(self, log: Log, **settings: Any) -> None:
        self.log = log
        self.settings = replace(ServerSettings(), **{"advertised_hosts": (NAME,), **settings})
        self.threads = ThreadPoolExecutor(4, thread_name_prefix="lakelog-http")
        self._runner = asyncio.Runner()
        self.tier = ServerContext(
            log,
            self.run(open_groups(log, self.settings)),
            self.settings,
            Bodies(self.settings.max_body_bytes, self.settings.max_bodies_bytes),
            ReadRoom(self.settings.max_reads_bytes),
            RequestCounters(),
            self.threads,
        )
        self.asgi = create_app(self.tier)
        self.client = httpx.AsyncClient(transport=httpx.ASGITransport(self.asgi), base_url=BASE, timeout=30)
        self._conformance = _conformance(list_operations(self.tier))

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        return self._runner.run(coroutine)

    def request(self, method: str, path: str, **given: Any) -> httpx.Response:
        """The answer; that it is as declared is checked on the way. A body that says no type is sent as JSON."""
        headers = httpx.Headers(given.get("headers"))
        if "content" in given and "content-type" not in headers:
            given["headers"] = httpx.Headers([*headers.multi_items(), ("Content-Type", "application/json")])
        response = self.run(self.client.request(method, path, **given))
        self._conformance.check(method, response.request.url.raw_path.decode(), response)
        return response

    def get(self, path: str, **given: Any) -> httpx.Response:
        return self.request("GET", path, **given)

    def put(self, path: str, **given: Any) -> httpx.Response:
        return self.request("PUT", path, **given)

    def post(self, path: str, **given: Any) -> httpx.Response:
        return self.request("POST", path, **given)

    def patch(self, path: str, **given: Any) -> httpx.Response:
        return self.request("PATCH", path, **given)

    def delete(self, path: str, **given: Any) -> httpx.Response:
        return self.request("DELETE", path, **given)

    @contextmanager
    def hurried(self, request_timeout_ms: int) -> Generator[None]:
        """Its requests have no more time than this; those before and behind the block have all that they need."""
        before = self.client
        settings = replace(self.settings, request_timeout_ms=request_timeout_ms)
        app = create_app(replace(self.tier, settings=settings))
        self.client = httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url=BASE, timeout=30)
        try:
            yield
        finally:
            self.run(self.client.aclose())
            self.client = before

    def close(self) -> None:
        try:
            self.run(self.client.aclose())
            self.run(close_groups(self.tier.groups))
        finally:
            self._runner.close()
            self.threads.shutdown()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _conformance(operations: Sequence[Operation]) -> Conformance:
    """Of a tier, by its routes: writing their document takes longer than most tests, so it is done once."""
    routes = tuple((operation.method, operation.path) for operation in operations)
    if routes not in _DOCUMENTS:
        _DOCUMENTS[routes] = Conformance(document(operations, version="test"))
    return _DOCUMENTS[routes]


@pytest.fixture(params=["local", "memory"])
def http_place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    with no_thread_left():
        made = Place(tmp_path / "root" if request.param == "local" else None)
        yield made
        made.close()


@pytest.fixture
def app(http_place: Place) -> Iterator[HttpApp]:
    """Over a log on a disk, and over one in memory."""
    with HttpApp(http_place.open()) as made:
        yield made


def error_code(response: httpx.Response) -> tuple[int, int]:
    """The status of an error and its code; that it has the shape of one is checked on the way."""
    body = response.json()
    assert response.headers["content-type"] == "application/json"
    assert isinstance(body["message"], str)
    assert body["message"]
    assert response.status_code >= 400
    return response.status_code, body["error_code"]
