"""/openapi.json is sound and complete. That answers are as it says, every test of a route checks on its way."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from ingest_api.server.app import list_operations
from ingest_api.web.openapi import document
from ingest_api.web.parameters import Clamped, Flag, OneOfKinds, Parameter, Text, Whole, Words
from ingest_api.web.route_spec import Content, Operation, ResponseSpec
from tests.support.conformance import Conformance
from tests.support.http_app import HttpApp

METHODS = {"get", "post", "put", "patch", "delete"}


@pytest.fixture
def said(app: HttpApp) -> dict[str, Any]:
    return app.get("/openapi.json").json()


def operations_of(said: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    for path, of_path in said["paths"].items():
        for method, operation in of_path.items():
            yield path, method, operation


def parts(of: Any) -> Iterator[Any]:
    yield of
    for part in of.values() if isinstance(of, dict) else of if isinstance(of, list) else ():
        yield from parts(part)


def test_every_route_is_in_the_document_and_no_other(app: HttpApp, said: dict[str, Any]):
    routes = {(each.path, each.method.lower()) for each in list_operations(app.tier) if each.listed}
    assert {(path, method) for path, method, _ in operations_of(said)} == routes
    assert {method for _, method, _ in operations_of(said)} <= METHODS


def test_every_reference_leads_somewhere(said: dict[str, Any]):
    references = {part["$ref"] for part in parts(said) if isinstance(part, dict) and "$ref" in part}
    assert references
    for reference in references:
        found: Any = said
        for name in reference.removeprefix("#/").split("/"):
            found = found[name]


def test_every_component_is_used_and_has_a_name_that_may_be(said: dict[str, Any]):
    references = {part["$ref"] for part in parts(said) if isinstance(part, dict) and "$ref" in part}
    for kind, components in said["components"].items():
        for name in components:
            assert re.fullmatch(r"[A-Za-z0-9._-]+", name)
            assert f"#/components/{kind}/{name}" in references


def test_an_operation_has_a_name_of_its_own_a_summary_and_a_tag(said: dict[str, Any]):
    names = [operation["operationId"] for _, _, operation in operations_of(said)]
    assert len(set(names)) == len(names)
    tags = {tag["name"] for tag in said["tags"]}
    for _, _, operation in operations_of(said):
        assert operation["summary"]
        assert set(operation["tags"]) <= tags


def test_each_parameter_of_a_path_is_declared_once_and_needed(said: dict[str, Any]):
    for path, _, operation in operations_of(said):
        given = operation.get("parameters", [])
        assert len({(each["name"], each["in"]) for each in given}) == len(given)
        in_path = [each for each in given if each["in"] == "path"]
        assert sorted(each["name"] for each in in_path) == sorted(re.findall(r"\{(\w+)\}", path))
        assert all(each["required"] for each in in_path)
        assert all(each["schema"] and each["description"] for each in given)


def test_every_answer_says_what_it_means_and_every_error_has_the_shape_of_one(said: dict[str, Any]):
    for path, method, operation in operations_of(said):
        statuses = {int(status) for status in operation["responses"]}
        assert {200, 201, 202, 204, 207} & statuses, f"{method} {path} never succeeds"
        assert {400, 422, 500, 503, 504} <= statuses
        assert (413 in statuses) == ("requestBody" in operation)
        assert 415 in statuses or "requestBody" not in operation
        assert 404 in statuses or "{" not in path
        for status, answer in operation["responses"].items():
            if "$ref" in answer:
                assert answer["$ref"] == f"#/components/responses/Error{status}"
            else:
                assert answer["description"]
                assert ("content" in answer) == (status not in ("204", "304"))
    for answer in said["components"]["responses"].values():
        assert answer["content"]["application/json"]["schema"] == {"$ref": "#/components/schemas/Error"}


def test_a_body_has_a_schema_for_each_of_its_media_types(said: dict[str, Any]):
    bodies = [operation["requestBody"] for _, _, operation in operations_of(said) if "requestBody" in operation]
    assert bodies
    for body in bodies:
        assert isinstance(body["required"], bool)
        assert all(isinstance(content["schema"], dict) for content in body["content"].values())


def made(**given: Any) -> dict[str, Any]:
    async def act(_: Any) -> Any: ...

    operation = Operation("GET", "/x/{topic}", "x", "An x.", act, "xs", given.pop("answers", ()), **given)
    return document([operation], version="1")


def test_a_parameter_is_shown_by_its_declaration():
    kinds = (Whole(1, 9), Clamped(1, 5), Words(("a", "b")), Flag(), Text(3, "[a-c]+"), OneOfKinds((Whole(), Flag())))
    given = tuple(Parameter(f"p{at}", kind, "What it is.", default=at) for at, kind in enumerate(kinds))
    shown = made(parameters=given)["paths"]["/x/{topic}"]["get"]["parameters"]
    assert [each["name"] for each in shown] == ["topic", "p0", "p1", "p2", "p3", "p4", "p5"]
    schemas = [each["schema"] for each in shown]
    assert (schemas[1]["minimum"], schemas[1]["maximum"]) == (1, 9)
    assert schemas[3] == {"type": "string", "enum": ["a", "b"], "default": 2}
    assert schemas[4] == {"type": "boolean", "default": 3}
    assert (schemas[5]["maxLength"], schemas[5]["pattern"]) == (3, "^(?:[a-c]+)$")
    assert "A whole number from 1 to 9." in shown[1]["description"]


def test_an_answer_that_a_route_describes_itself_is_no_error_of_all():
    content = Content({"application/json": {"type": "object"}})
    shown = made(
        answers=(ResponseSpec(200, "Fine.", content), ResponseSpec(503, "Not now.", content)), error_statuses=(409,)
    )
    responses = shown["paths"]["/x/{topic}"]["get"]["responses"]
    assert responses["503"]["description"] == "Not now."
    assert responses["409"] == {"$ref": "#/components/responses/Error409"}
    assert "406" in responses
    assert "413" not in responses


def answer(status: int = 200, body: bytes = b"{}", media: str = "application/json") -> httpx.Response:
    return httpx.Response(status, content=body, headers={"content-type": media})


@pytest.mark.parametrize(
    "wrong",
    [
        answer(201),
        answer(media="text/plain"),
        answer(body=b"[]"),
        answer(body=b'{"a": "1"}'),
        answer(body=b'{"a": 10}'),
        answer(body=b'{"a": 1, "b": 1}'),
        answer(body=b'{"a": 1}{}'),
        httpx.Response(200, content=b'{"a": 1}', headers={"content-type": "application/json", "x-more": "1"}),
    ],
)
def test_an_answer_that_is_not_as_declared_is_noticed(wrong: httpx.Response):
    schema = {
        "type": "object",
        "required": ["a"],
        "additionalProperties": False,
        "properties": {"a": {"type": "integer", "maximum": 9}},
    }
    conformance = Conformance(made(answers=(ResponseSpec(200, "Fine.", Content({"application/json": schema})),)))
    conformance.check("GET", "/x/t", answer(body=b'{"a": 1}'))
    with pytest.raises(AssertionError):
        conformance.check("GET", "/x/t", wrong)
