"""What the wire answers is declared of every route, as what the routes answer is: to parameters of any length."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import Any

import httpx
import pytest

from ingest_api.http1 import rejections as faults
from ingest_api.http1.rejections import Fault
from tests.support.conformance import Conformance
from tests.support.serving import Server, serving

#: Of a method that no route has.
ELSEWHERE = {faults.NO_TUNNELS}
#: Fields of every connection, which no document needs to name.
OF_THE_WIRE = ("connection", "date", "transfer-encoding", "x-content-type-options")
#: More than a head may have, and what fits.
TOO_LONG, LONG = "a" * 33_000, "a" * 20_000


@pytest.fixture(scope="module")
def server() -> Generator[Server]:
    with serving(None, max_poll_ms=20) as running:
        yield running


@pytest.fixture(scope="module")
def document(server: Server) -> dict[str, Any]:
    return httpx.get(f"{server.url}/openapi.json").json()


def routes(document: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            yield method.upper(), path, operation


def test_every_fault_of_the_wire_is_declared_of_every_route(document: dict[str, Any]):
    given = {each.status for each in vars(faults).values() if isinstance(each, Fault) and each not in ELSEWHERE}
    assert given >= {408, 414, 417, 431, 503}
    for method, path, operation in routes(document):
        declared = {int(status) for status in operation["responses"]}
        assert given <= declared, f"{method} {path} does not declare {given - declared}"


def requests(operation: dict[str, Any], path: str) -> Iterator[tuple[str, dict[str, str], int | None]]:
    """Targets and headers with one parameter that is long; and the status, where the wire gives it."""
    parameters = operation.get("parameters", [])
    plain = path
    for each in parameters:
        if each["in"] == "path":
            plain = plain.replace(f"{{{each['name']}}}", "1")
    yield f"{plain}?{TOO_LONG}", {}, 414
    yield plain, {"X-Long": TOO_LONG}, 431
    yield f"{plain}?{LONG}", {}, None
    for each in parameters:
        for size in (TOO_LONG, LONG):
            by_wire = None if size is LONG else 431 if each["in"] == "header" else 414
            if each["in"] == "path":
                filled = path.replace(f"{{{each['name']}}}", size)
                for other in parameters:
                    filled = filled.replace(f"{{{other['name']}}}", "1")
                yield filled, {}, by_wire
            elif each["in"] == "query":
                yield f"{plain}?{each['name']}={size}", {}, by_wire
            else:
                yield plain, {each["name"]: size}, by_wire


def test_whatever_is_answered_to_a_long_parameter_is_declared(server: Server, document: dict[str, Any]):
    conformance, asked = Conformance(document), 0
    with httpx.Client(base_url=server.url, timeout=30) as client:
        for method, path, operation in routes(document):
            for target, headers, status in requests(operation, path):
                answer = client.request(method, target, headers=headers)
                where = f"{method} {target[:100]} {list(headers)}"
                assert answer.status_code == status or status is None, f"{where}: {answer.status_code}"
                assert str(answer.status_code) in operation["responses"], f"{where}: {answer.status_code}"
                for field in OF_THE_WIRE:
                    answer.headers.pop(field, None)
                conformance.check(method, target, answer)
                asked += 1
    assert asked > 5 * len(document["paths"])
