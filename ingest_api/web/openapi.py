"""The OpenAPI document, made only from the declarations of the routes. Pure.

A route declares its own answers; errors that any route can give are declared here, once for all.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from ingest_api.web.json_schemas import Schemas
from ingest_api.web.parameters import Parameter
from ingest_api.web.route_spec import PATH_KINDS, Content, Operation, ResponseSpec

#: Meaning of an error, by its status.
ERRORS: Final[Mapping[int, str]] = {
    400: "The request cannot be read, or asks for what cannot be. Nothing was stored.",
    403: "A web page that may not change anything here sent it. Nothing was stored.",
    404: "What the request is about is not there. Nothing was stored.",
    406: "`Accept` allows nothing that is offered; the message names what is. Nothing was stored.",
    408: "The request did not arrive in time. Nothing was stored.",
    409: "What is there contradicts the request. Nothing was stored.",
    413: "The body is too large. Nothing was stored.",
    414: "The URL is too long. Nothing was stored.",
    415: "The body is of a type or coding that is not accepted; the message names those that are. Nothing was stored.",
    416: "The offset is out of range; `log_start_offset` and `end_offset` say what there is. Nothing was stored.",
    417: "`Expect` asks for something else than `100-continue`. Nothing was stored.",
    421: "`Host` is none of this server's names; the message says how to add one. Nothing was stored.",
    422: "The request is not what the route takes, or breaks a rule; the message says which. Nothing was stored.",
    431: "The request has too many header fields, or too large ones. Nothing was stored.",
    500: "A fault of the server. Whether anything was stored is unknown.",
    503: "Not now; nothing was stored. `retriable` says whether trying again can help.",
    504: "It took too long, or its outcome was lost: whether anything was stored is unknown.",
}
_ANY: Final = (400, 408, 414, 417, 422, 431, 500, 503, 504)
_CHANGING: Final = (403, 415)
_UNDER_A_NAME: Final = (421,)
_WITH_BODY: Final = (413, 415)
_WITH_CHOICE: Final = (406,)
_AGAIN: Final = (503,)

_ERROR: Final[dict[str, Any]] = {
    "type": "object",
    "description": "What went wrong. Some errors carry facts of their own beside these.",
    "required": ["error_code", "message"],
    "properties": {
        "error_code": {
            "type": "integer",
            "description": "The HTTP status, or the status and two digits.",
            "minimum": 400,
            "maximum": 59999,
        },
        "message": {"type": "string", "description": "A sentence for people."},
        "retriable": {"type": "boolean", "description": "Whether the same request can succeed later."},
        "outcome": {
            "type": "string",
            "enum": ["not_attempted", "unknown"],
            "description": "Whether something may have been stored.",
        },
    },
}
_PATH_NAME: Final = re.compile(r"\{([a-z_]+)\}")


def document(operations: Sequence[Operation], *, version: str) -> dict[str, Any]:
    operations = [operation for operation in operations if operation.listed]
    schemas = Schemas(shape for operation in operations for shape in _shapes(operation))
    paths: dict[str, dict[str, Any]] = {}
    for operation in operations:
        paths.setdefault(operation.path, {})[operation.method.lower()] = _operation(operation, schemas)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "lakelog",
            "version": version,
            "description": "A streaming log on Delta Lake tables, with Kafka's semantics.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/"}],
        "tags": [{"name": tag} for tag in dict.fromkeys(operation.tag for operation in operations)],
        "paths": paths,
        "components": {
            "schemas": {"Error": _ERROR, **schemas.components},
            "responses": {f"Error{status}": _error(status) for status in sorted(ERRORS)},
            "headers": {
                "X-Request-Id": {"description": "Names the request in the server's logs.", "schema": {"type": "string"}}
            },
        },
    }


def error_statuses(operation: Operation) -> list[int]:
    """Statuses of the errors that a route can give, without those that it declares itself."""
    found = {*_ANY, *operation.error_statuses}
    if not operation.reads:
        found.update(_CHANGING)
    if not operation.under_any_name:
        found.update(_UNDER_A_NAME)
    if operation.body is not None:
        found.update(_WITH_BODY)
    if any(says.content is not None for says in operation.answers):
        found.update(_WITH_CHOICE)
    if _PATH_NAME.search(operation.path):
        found.add(404)
    return sorted(found - {says.status for says in operation.answers})


def path_parameters(operation: Operation) -> list[Parameter]:
    """Parameters in the braces of the operation's path."""
    return [
        Parameter(name, *PATH_KINDS[name], place="path", required=True) for name in _PATH_NAME.findall(operation.path)
    ]


def _operation(operation: Operation, schemas: Schemas) -> dict[str, Any]:
    described: dict[str, Any] = {
        "operationId": operation.name,
        "summary": operation.summary,
        "tags": [operation.tag],
        "responses": {
            **{str(says.status): _answer(says, schemas) for says in operation.answers},
            **{str(status): {"$ref": f"#/components/responses/Error{status}"} for status in error_statuses(operation)},
        },
    }
    if operation.doc:
        described["description"] = operation.doc
    parameters = [_parameter(given) for given in (*path_parameters(operation), *operation.parameters)]
    if parameters:
        described["parameters"] = parameters
    if operation.body is not None:
        body = operation.body
        said = {"description": body.doc} if body.doc else {}
        described["requestBody"] = {**said, "required": body.required, "content": _content(body, schemas)}
    return described


def _parameter(given: Parameter) -> dict[str, Any]:
    schema = given.kind.schema()
    if given.default is not None:
        schema["default"] = given.default
    return {
        "name": given.name,
        "in": given.place,
        "description": f"{given.doc} {_sentence(str(given.kind))}",
        "required": given.required,
        "schema": schema,
    }


def _answer(says: ResponseSpec, schemas: Schemas) -> dict[str, Any]:
    described: dict[str, Any] = {
        "description": says.doc,
        "headers": {
            "X-Request-Id": {"$ref": "#/components/headers/X-Request-Id"},
            **{name: {"description": doc, "schema": {"type": "string"}} for name, doc in says.headers.items()},
        },
    }
    if says.content is not None:
        described["content"] = _content(says.content, schemas)
    return described


def _error(status: int) -> dict[str, Any]:
    headers: dict[str, Any] = {"X-Request-Id": {"$ref": "#/components/headers/X-Request-Id"}}
    if status in _AGAIN:
        headers["Retry-After"] = {
            "description": "In how many seconds to try again, where that can help.",
            "schema": {"type": "integer"},
        }
    return {
        "description": ERRORS[status],
        "headers": headers,
        "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}},
    }


def _content(content: Content, schemas: Schemas) -> dict[str, Any]:
    return {media: {"schema": schemas.of(shape)} for media, shape in content.types.items()}


def _shapes(operation: Operation) -> Iterable[Any]:
    contents = [says.content for says in operation.answers] + [operation.body]
    for content in contents:
        if content is not None:
            yield from content.types.values()


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}."
