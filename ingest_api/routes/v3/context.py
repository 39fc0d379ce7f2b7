"""The common part of all routes of v3: their cluster, and Confluent's codes of errors."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any, Final

from consumer_groups.model.errors import UnknownGroup
from delta_log.model.errors import InvalidRequest, RecordTooLarge, UnknownPartition, UnknownTopic
from delta_log.model.quoting import quoted
from ingest_api.routes.v3.shapes import View
from ingest_api.web.context import ServerContext
from ingest_api.web.errors import UNKNOWN_PARTITION, Refusal, row_of
from ingest_api.web.forwarded import address_of
from ingest_api.web.json_bodies import check_accepts_json
from ingest_api.web.request import Call, Reply
from ingest_api.web.route_spec import Content, Method, Operation, ResponseSpec

CLUSTER: Final = "/v3/clusters/{cluster}"
BAD_REQUEST: Final = 40002
UNKNOWN_TOPIC: Final = 40403
#: Prefix of the log's message about the only record of a request.
_ONLY: Final = "record 0: "

Act = Callable[[Call, View], Awaitable[Reply]]


def answers(shape: Any, doc: str, status: int = 200, **headers: str) -> ResponseSpec:
    return ResponseSpec(status, doc, Content({"application/json": shape}), headers)


def takes(shape: Any, doc: str = "") -> Content:
    return Content({"application/json": shape}, doc=doc)


def route(
    tier: ServerContext,
    method: Method,
    path: str,
    name: str,
    summary: str,
    act: Act,
    says: ResponseSpec | tuple[ResponseSpec, ...],
    body: Content | None = None,
) -> Operation:
    """Declare a route of v3. One with a parameter in its path can answer 404: no such cluster, topic or partition."""
    refuses = (404,) if "{" in path else ()
    guarded = _guarded(tier, act)
    said = says if isinstance(says, tuple) else (says,)
    return Operation(method, path, f"v3_{name}", summary, guarded, "v3", said, body=body, error_statuses=refuses)


def reading(tier: ServerContext, path: str, name: str, summary: str, act: Act, says: ResponseSpec) -> Operation:
    """Declare a route that changes nothing."""
    return replace(route(tier, "GET", path, name, summary, act, says), reads=True)


def translate(error: InvalidRequest) -> Refusal:
    """Convert an error of the log to Confluent's codes."""
    if isinstance(error, UnknownTopic):
        return Refusal(404, str(error), code=UNKNOWN_TOPIC)
    if isinstance(error, UnknownPartition):
        return Refusal(404, str(error), code=UNKNOWN_PARTITION)
    if isinstance(error, UnknownGroup):
        return Refusal(404, str(error), code=row_of(error).code)
    if isinstance(error, RecordTooLarge):
        what = f"the record has {error.size} bytes, more than max.message.bytes={error.limit}"
        return Refusal(400, what, code=BAD_REQUEST)
    return Refusal(400, str(error).removeprefix(_ONLY), code=BAD_REQUEST)


def bad_request(message: str) -> Refusal:
    return Refusal(400, message, code=BAD_REQUEST)


def view_of(tier: ServerContext, call: Call) -> View:
    return View(
        address_of(call.scope, tier.settings.trusted_proxies).base, tier.log.cluster_id, tier.settings.broker_id
    )


def _guarded(tier: ServerContext, act: Act) -> Callable[[Call], Awaitable[Reply]]:
    async def guarded(call: Call) -> Reply:
        call.query(())
        check_accepts_json(call)
        cluster = call.path.get("cluster")
        if cluster is not None and cluster != tier.log.cluster_id:
            raise Refusal(404, f"there is no cluster {quoted(cluster)}")
        try:
            return await act(call, view_of(tier, call))
        except InvalidRequest as error:
            raise translate(error) from error

    return guarded
