"""Every route of a server as something that can be asked, and all that can be read of one."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Final

from delta_log import Log
from ingest_api.server.app import list_operations
from ingest_api.web.route_spec import Operation
from tests.support.http_app import HttpApp
from tests.support.raw_http import Answer, RawClient

#: What the routes of a test are about.
NAMES: Final = {"topic": "orders", "partition": "0", "group": "billing", "instance": "till", "broker": "1"}
#: What tells another thing each time that it is asked.
_UNSTEADY: Final = ("/metrics", "/_health")


def every_operation() -> list[Operation]:
    with Log.open("memory://") as log, HttpApp(log) as app:
        return list_operations(app.tier)


def path_of(operation: Operation, cluster: str) -> str:
    """With names for its parameters; of what there is no such thing, there is none."""
    path = operation.path
    for name, value in {**NAMES, "cluster": cluster}.items():
        path = path.replace(f"{{{name}}}", value)
    return path.replace("{", "").replace("}", "")


def ask(port: int, method: str, path: str, fields: Iterable[tuple[str, str]] = (), body: bytes = b"") -> Answer:
    """One request on a connection of its own, with exactly these fields beside Host and what frames it."""
    given = list(fields)
    if not any(name.lower() == "host" for name, _ in given):
        given.insert(0, ("Host", f"127.0.0.1:{port}"))
    if body or method in ("POST", "PUT", "PATCH"):
        given.append(("Content-Length", str(len(body))))
    lines = [f"{method} {path} HTTP/1.1", *(f"{name}: {value}" for name, value in given), "Connection: close", "", ""]
    with RawClient(port) as client:
        return client.ask("\r\n".join(lines).encode("latin-1") + body, to_head=method == "HEAD")


def read_everything(port: int, operations: Sequence[Operation], cluster: str) -> dict[str, bytes]:
    """The answer of every route that only reads."""
    paths = [path_of(each, cluster) for each in operations if each.reads and each.path not in _UNSTEADY]
    return {path: ask(port, "GET", path).body for path in paths}


def cluster_of(port: int) -> str:
    return json.loads(ask(port, "GET", "/").body)["cluster_id"]


def code_of(answer: Answer) -> int:
    return json.loads(answer.body or b"{}").get("error_code", 0)
