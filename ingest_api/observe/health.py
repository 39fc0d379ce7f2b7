"""Routes for operators: liveness, readiness, health, metrics, and the identity of the server."""

from __future__ import annotations

import asyncio
import time
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from ingest_api.config.settings import ServerSettings
from ingest_api.observe.group_metrics import MOST_GROUPS, MOST_PARTITIONS
from ingest_api.observe.metrics import Exposition
from ingest_api.observe.readiness import reasons_not_ready
from ingest_api.web.context import ServerContext
from ingest_api.web.request import Call, Reply, json_reply
from ingest_api.web.route_spec import Content, Operation, ResponseSpec

_TAG: Final = "operations"
_STRINGS: Final = {"type": "array", "items": {"type": "string"}}
_TEXT: Final = {"type": "string"}


def operations(tier: ServerContext) -> list[Operation]:
    """List the routes of this module."""
    return _Operations(tier, find_version()).operations()


def find_version() -> str:
    try:
        return version("lakelog")
    except PackageNotFoundError:
        return "unknown"


def place_of(settings: ServerSettings) -> str | None:
    """Location of the root, for readers of its tables; None in memory. Credentials of a bucket are left out."""
    if settings.memory or settings.data.startswith("memory:"):
        return None
    if "://" not in settings.data:
        return str(Path(settings.data).absolute())
    place = urlsplit(settings.data)
    return f"{place.scheme}://{place.netloc.rpartition('@')[2]}{place.path}"


class _Operations:
    """Handlers: each public method is a route. None of them waits for the log."""

    def __init__(self, tier: ServerContext, running: str) -> None:
        self._tier = tier
        self._version = running
        self._exposition = Exposition(tier, running)

    async def healthz(self, call: Call) -> Reply:
        call.query(())
        return json_reply({"status": "ok"})

    async def readyz(self, call: Call) -> Reply:
        call.query(())
        reasons = self._reasons()
        if not reasons:
            return json_reply({"ready": True, "reasons": []})
        said = {"error_code": 503, "message": "; ".join(reasons), "ready": False, "reasons": reasons}
        return json_reply(said, 503, headers=[(b"retry-after", b"1")])

    async def health(self, call: Call) -> Reply:
        call.query(())
        reasons = self._reasons()
        said = {
            "process_uptime_sec": int(time.monotonic() - self._tier.watch.began),
            "karapace_version": f"lakelog {self._version}",
            "ready": not reasons,
            "reasons": reasons,
        }
        return json_reply(said, 503 if reasons else 200)

    async def metrics(self, call: Call) -> Reply:
        call.query(())
        accept = (call.list_header(b"accept") or b"").decode("latin-1")
        groups = await self._tier.groups.statistics(MOST_GROUPS, MOST_PARTITIONS)
        text, content_type = await asyncio.to_thread(self._exposition.text, accept, groups)
        return Reply(200, text, content_type.encode())

    async def root(self, call: Call) -> Reply:
        call.query(())
        return json_reply(
            {
                "name": "lakelog",
                "version": self._version,
                "cluster_id": self._tier.log.cluster_id,
                "data": place_of(self._tier.settings),
                "docs": "/docs",
                "openapi": "/openapi.json",
            }
        )

    def _reasons(self) -> list[str]:
        return reasons_not_ready(self._tier.watch.state, self._tier.log.refuses)

    def operations(self) -> list[Operation]:
        ready = {"ready": {"type": "boolean"}, "reasons": _STRINGS}
        health = {"process_uptime_sec": {"type": "integer"}, "karapace_version": _TEXT} | ready
        not_ready = {"error_code": {"type": "integer"}, "message": _TEXT} | ready
        root: dict[str, Any] = dict.fromkeys(("name", "version", "cluster_id", "docs", "openapi"), _TEXT)
        root["data"] = {"type": ["string", "null"]}
        metrics: dict[str, Any] = dict.fromkeys(("text/plain", "application/openmetrics-text"), _TEXT)
        return [
            Operation(
                "GET", "/healthz", "healthz", "Whether the process lives", self.healthz, _TAG,
                (ResponseSpec(200, "It does.", _object({"status": _TEXT})),), reads=True,
                under_any_name=True,
            ),
            Operation(
                "GET", "/readyz", "readyz", "Whether the server should be given requests", self.readyz, _TAG,
                (
                    ResponseSpec(200, "It should: it serves, and can write.", _object(ready)),
                    ResponseSpec(
                        503, "Not now; `reasons` say why.", _object(not_ready), {"Retry-After": "In seconds."}
                    ),
                ),
                doc="Not while the log is recovered or cannot be written, and while the server is about to stop.",
                reads=True,
            ),
            Operation(
                "GET", "/_health", "health", "Karapace's health check", self.health, _TAG,
                (ResponseSpec(200, "Ready.", _object(health)), ResponseSpec(503, "Not ready.", _object(health))),
                reads=True,
            ),
            Operation(
                "GET", "/metrics", "metrics", "Metrics for Prometheus", self.metrics, _TAG,
                (ResponseSpec(200, "All metrics, as text or, where asked for, as OpenMetrics.", Content(metrics)),),
                reads=True,
            ),
            Operation(
                "GET", "/", "root", "What this is", self.root, _TAG,
                (
                    ResponseSpec(
                        200, "A lakelog server, its root (`data`), and where its documentation is.", _object(root)
                    ),
                ),
                doc="`data` is where its root is: a path on the server's host, or a place in a bucket without anything "
                "that opens it. It is null where the log is in memory.", reads=True,
            ),
        ]  # fmt: skip


def _object(properties: dict[str, Any]) -> Content:
    return Content({"application/json": {"type": "object", "properties": properties, "required": list(properties)}})
