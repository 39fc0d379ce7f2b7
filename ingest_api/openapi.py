"""The OpenAPI document, made from the declarations of the routes. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ingest_api.operations import Operation


def document(operations: Sequence[Operation], *, version: str) -> dict[str, Any]:
    paths: dict[str, dict[str, Any]] = {}
    for operation in operations:
        paths.setdefault(operation.path, {})[operation.method.lower()] = {
            "operationId": operation.name,
            "summary": operation.summary,
            "tags": [operation.tag],
            "responses": {str(says.status): {"description": says.doc} for says in operation.answers},
        }
    return {"openapi": "3.1.0", "info": {"title": "lakelog", "version": version}, "paths": paths}
