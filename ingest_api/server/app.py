"""The app: one entry for every operation.

All are declared as `Operation`s, from which the routing table and the OpenAPI document are made. They are called as
plain ASGI, as the layers of FastAPI would cost more than most operations. Requests that the table does not find, HEAD
and unknown routes, go through FastAPI to the same dispatcher. Nothing else answers a request.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import CoroutineType
from typing import Any, Final

from fastapi import FastAPI, Request, Response
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.routing import Match, Route

from ingest_api.http1.asgi import App
from ingest_api.observe import health as routes_operations
from ingest_api.routes import v3
from ingest_api.routes.groups import consumers, native
from ingest_api.routes.pages import pages as routes_pages
from ingest_api.routes.records import batches as routes_batches
from ingest_api.routes.records import produce_operations, read_operations
from ingest_api.routes.records import producers as routes_producers
from ingest_api.routes.topics import topics as routes_topics
from ingest_api.routes.transactions import transactions as routes_transactions
from ingest_api.server.own_names import look_up_own_names, own_names
from ingest_api.web.admission import Door
from ingest_api.web.context import ServerContext
from ingest_api.web.dispatch import Dispatcher
from ingest_api.web.errors import Refusal
from ingest_api.web.hosts import Hosts
from ingest_api.web.request import Call, Receive, Reply, Scope, Send
from ingest_api.web.route_spec import Operation
from ingest_api.web.routing import RoutingTable

#: Headers of an answer that a page's script may read, beside those that it always may.
EXPOSED: Final = (
    "ETag",
    "Lakelog-Answer",
    "Lakelog-End-Offset",
    "Lakelog-Generation",
    "Lakelog-Last-Try",
    "Lakelog-Log-Start-Offset",
    "Lakelog-Next-Offset",
    "Lakelog-Next-Offsets",
    "Lakelog-Table-Version",
    "Lakelog-Topic-Id",
    "Retry-After",
    "X-Request-Id",
)


def create_app(tier: ServerContext) -> App:
    """Make the HTTP tier over an open log."""
    settings = tier.settings
    hosts = Hosts((*own_names(), settings.host), settings.advertised_hosts)
    look_up_own_names(hosts.learn)
    door = Door(settings, hosts)
    app = TierApp(list_operations(tier), Dispatcher(tier.bodies, tier.watch, door))
    return _Cors(app, door, settings.cors_origins) if settings.cors_origins else app


def list_operations(tier: ServerContext) -> list[Operation]:
    """List every route."""
    records = (produce_operations, read_operations, routes_topics, routes_batches, routes_producers)
    modules = (*records, routes_transactions, consumers, native, routes_operations, v3)
    described = [operation for module in modules for operation in module.operations(tier)]
    return [*described, *routes_pages.operations(described)]


class TierApp(FastAPI):
    """FastAPI with the routing table in front."""

    def __init__(self, operations: Sequence[Operation], edge: Dispatcher) -> None:
        super().__init__(title="lakelog", openapi_url=None, redirect_slashes=False)  # it has no page of its own
        self._edge = edge
        self._table = RoutingTable(operations)
        for operation in operations:
            self.add_route(operation.path, self._endpoint(operation), [operation.method], include_in_schema=False)
        self.add_exception_handler(HTTPException, self._refuse)

    def __call__(self, scope: Scope, receive: Receive, send: Send) -> CoroutineType[Any, Any, None]:
        if scope["type"] == "http":
            raw: bytes = scope["raw_path"]
            if len(raw) > 1 and raw.endswith(b"/"):
                raw = raw[:-1]
            if b"%3" in raw:  # an encoded colon means the same
                raw = raw.replace(b"%3A", b":").replace(b"%3a", b":")
            found = self._table.find(scope["method"], raw)
            if found is not None:
                return self._edge.perform(found.operation, found.path, scope, receive, send)
            scope["path"] = raw.decode("latin-1")  # still encoded, so that an encoded slash does not split a part
        return super().__call__(scope, receive, send)

    def _endpoint(self, operation: Operation) -> Any:
        async def endpoint(request: Request) -> Response:
            return _Performed(self._edge, operation, {k: v.encode() for k, v in request.path_params.items()})

        return endpoint

    async def _refuse(self, request: Request, _error: Exception) -> Response:
        """Answer a path without a route, or without one of that method."""
        scope = request.scope
        methods = {
            method
            for route in self.routes
            if isinstance(route, Route) and route.matches(scope)[0] is not Match.NONE
            for method in route.methods or ()
        }
        return _Performed(self._edge, _no_route(scope["path"], sorted(methods)), {})


class _Cors(CORSMiddleware):
    """CORS for allowed origins. An OPTIONS request for an unknown host name passes to the app unchanged."""

    def __init__(self, app: TierApp, door: Door, origins: Sequence[str]) -> None:
        super().__init__(app, origins, allow_methods=["*"], allow_headers=["*"], expose_headers=EXPOSED, max_age=3600)
        self._door = door

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["method"] == "OPTIONS" and not self._door.serves(scope):
            await self.app(scope, receive, send)
        else:
            await super().__call__(scope, receive, send)


class _Performed(Response):
    """An operation as a response that FastAPI calls."""

    def __init__(self, edge: Dispatcher, operation: Operation, path: Mapping[str, bytes]) -> None:
        self._edge, self._operation, self._path = edge, operation, path
        self.background = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._edge.perform(self._operation, self._path, scope, receive, send)


def _no_route(path: str, methods: Sequence[str]) -> Operation:
    """Make the operation that refuses an unknown path, or an unknown method of a path."""

    async def act(call: Call) -> Reply:
        if not methods:
            raise Refusal(404, "there is no such route; /docs shows those that there are")
        refusal = Refusal(405, f"this route has {', '.join(methods)}, and not {call.method}")
        refusal.headers.append((b"allow", ", ".join(methods).encode()))
        raise refusal

    return Operation("GET", path, "no_route", "Refuse what there is not", act, "operations", (), reads=True)
