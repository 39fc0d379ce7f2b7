"""The app: every operation behind one door.

The hot routes are plain ASGI inside the FastAPI app, as its own layers cost four times what they do themselves; every
other route goes through FastAPI. All are declared as `Operation`s, from which the OpenAPI document is made.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from fastapi import FastAPI, Request, Response
from starlette.exceptions import HTTPException

from ingest_api import produce_operations, read_operations, routes_producers, routes_topics
from ingest_api.call import JSON, Receive, Reply, Scope, Send, send_reply
from ingest_api.edge import Edge
from ingest_api.errors import Refusal, answer_error
from ingest_api.openapi import document
from ingest_api.operations import Operation
from ingest_api.tier import Tier

VERSION: Final = "2.0"


def create_app(tier: Tier) -> TierApp:
    """The HTTP tier over an open log."""
    return TierApp(list_operations(tier), Edge(tier.bodies, tier.watch))


def list_operations(tier: Tier) -> list[Operation]:
    """Every route there is."""
    modules = (produce_operations, read_operations, routes_topics, routes_producers)
    return [operation for module in modules for operation in module.operations(tier)]


class TierApp(FastAPI):
    """FastAPI with the hot routes in front."""

    def __init__(self, operations: Sequence[Operation], edge: Edge) -> None:
        super().__init__(title="lakelog", docs_url="/docs", redoc_url=None, redirect_slashes=False)
        self._edge = edge
        self._operations = operations
        self._produce = next(operation for operation in operations if operation.name == "produce")
        self._fetch = next(operation for operation in operations if operation.name == "fetch")
        for operation in operations:
            self.add_route(operation.path, self._endpoint(operation), [operation.method], include_in_schema=False)
        self.add_exception_handler(HTTPException, _refuse)

    def openapi(self) -> dict[str, Any]:
        if self.openapi_schema is None:
            self.openapi_schema = document(self._operations, version=VERSION)
        return self.openapi_schema

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            raw: bytes = scope["raw_path"]
            if len(raw) > 1 and raw.endswith(b"/"):
                raw = raw[:-1]
            match scope["method"], raw.split(b"/"):
                case "POST", [b"", b"topics", topic]:
                    await self._edge.perform(self._produce, {"topic": topic}, scope, receive, send)
                    return
                case "GET", [b"", b"topics", topic, b"partitions", partition, b"records"]:
                    path = {"topic": topic, "partition": partition}
                    await self._edge.perform(self._fetch, path, scope, receive, send)
                    return
                case _:
                    scope["path"] = raw.decode("latin-1")  # still encoded: what is between two slashes stays there
        await super().__call__(scope, receive, send)

    def _endpoint(self, operation: Operation) -> Any:
        async def endpoint(request: Request) -> Response:
            return _Performed(self._edge, operation, {k: v.encode() for k, v in request.path_params.items()})

        return endpoint


class _Performed(Response):
    """An operation as what FastAPI calls to answer."""

    def __init__(self, edge: Edge, operation: Operation, path: dict[str, bytes]) -> None:
        self._edge, self._operation, self._path = edge, operation, path
        self.background = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._edge.perform(self._operation, self._path, scope, receive, send)


class _Answer(Response):
    """A reply of ours as a response of FastAPI's."""

    def __init__(self, reply: Reply) -> None:
        self._reply = reply
        self.background = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await send_reply(send, self._reply, [])


async def _refuse(request: Request, error: Exception) -> Response:
    """A route that is not there, or a method that it does not have."""
    status = error.status_code if isinstance(error, HTTPException) else 500
    sentence = {404: "there is no such route", 405: f"this route does not have the method {request.method}"}
    answer = answer_error(Refusal(status, sentence.get(status, "the request was refused")))
    allowed = dict(getattr(error, "headers", None) or {}).get("Allow")
    headers = [(b"allow", allowed.encode())] if allowed else []
    return _Answer(Reply(answer.status, answer.body, JSON, headers))
