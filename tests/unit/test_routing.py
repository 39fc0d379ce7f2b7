"""The routing table finds what was declared, and nothing else."""

from __future__ import annotations

import pytest

from ingest_api.web.request import Call, Reply
from ingest_api.web.route_spec import Method, Operation
from ingest_api.web.routing import RoutingTable


async def act(_: Call) -> Reply:
    return Reply()


def operation(method: Method, path: str) -> Operation:
    return Operation(method, path, f"{method} {path}", "", act, "", ())


TABLE = RoutingTable(
    [
        operation("GET", "/"),
        operation("GET", "/topics"),
        operation("POST", "/topics/{topic}"),
        operation("GET", "/topics/{topic}"),
        operation("GET", "/topics/{topic}/partitions/{partition}/records"),
        operation("POST", "/topics/{topic}/partitions/{partition}/records:delete"),
        operation("GET", "/v3/{cluster}/configs/{name}"),
        operation("POST", "/v3/{cluster}/configs:alter"),
    ]
)


@pytest.mark.parametrize(
    ("method", "path", "name", "values"),
    [
        ("GET", b"/", "GET /", {}),
        ("GET", b"/topics", "GET /topics", {}),
        ("POST", b"/topics/a%2Fb", "POST /topics/{topic}", {"topic": b"a%2Fb"}),
        ("GET", b"/topics/topics", "GET /topics/{topic}", {"topic": b"topics"}),
        (
            "GET",
            b"/topics/t/partitions/0/records",
            "GET /topics/{topic}/partitions/{partition}/records",
            {"topic": b"t", "partition": b"0"},
        ),
        ("POST", b"/v3/c/configs:alter", "POST /v3/{cluster}/configs:alter", {"cluster": b"c"}),
    ],
)
def test_what_is_declared_is_found_with_its_parameters_as_they_came(
    method: str, path: bytes, name: str, values: dict[str, bytes]
):
    found = TABLE.find(method, path)
    assert found is not None
    assert (found.operation.name, found.path) == (name, values)


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("DELETE", b"/topics"),
        ("HEAD", b"/topics"),
        ("GET", b"/topics/"),
        ("GET", b"/topics//partitions/0/records"),
        ("GET", b"/topics/t/partitions/0/records/more"),
        ("GET", b"/topics/t/partitions"),
        ("GET", b"/nothing"),
        ("GET", b"*"),
        ("GET", b""),
    ],
)
def test_what_is_not_declared_is_left_to_others(method: str, path: bytes):
    assert TABLE.find(method, path) is None
