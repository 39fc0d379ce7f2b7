"""Whether what a server answers is what its OpenAPI document says: status, media type, headers' names, shape."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

import httpx

#: What no document needs to name.
ALWAYS = {"content-type", "content-length", "x-request-id"}


class Conformance:
    """Of one document."""

    def __init__(self, document: Mapping[str, Any]) -> None:
        self._document = document
        self._routes = [
            (re.compile(re.sub(r"\\\{[a-z_]+\\\}", "[^/]+", re.escape(path))), operations)
            for path, operations in document["paths"].items()
        ]

    def check(self, method: str, path: str, response: httpx.Response) -> None:
        """Fail where an answer was not declared. What has no route is not looked at."""
        operation = self._find(method, path)
        if operation is None:
            return
        status = str(response.status_code)
        where = f"{method} {path[:200]} answers {status}"
        assert status in operation["responses"], f"{where}, which is not declared"
        declared = self._resolve(operation["responses"][status])
        allowed = ALWAYS | {name.lower() for name in declared.get("headers", {})}
        given = {name for name in response.headers if not name.startswith("access-control-") and name != "vary"}
        assert given <= allowed, f"{where} with headers that are not declared: {given - allowed}"
        media = response.headers.get("content-type", "").partition(";")[0]
        content = declared.get("content")
        if content is None:
            assert not response.content, f"{where} with a body, which is not declared"
            return
        assert media in content, f"{where} with {media}, which is not declared"
        if media.endswith("json") and "x-ndjson" not in media:
            for value in _values(response.text):
                problem = self.problem(value, content[media]["schema"], "$")
                assert problem is None, f"{where}: {problem}"

    def problem(self, value: Any, given: Mapping[str, Any], at: str) -> str | None:
        """What is wrong with a value by a schema, as far as our schemas go; None where nothing is."""
        schema = self._resolve(given)
        for word, least, most in (("anyOf", 1, 99), ("oneOf", 1, 1)):
            if word in schema:
                fitting = [one for one in schema[word] if self.problem(value, one, at) is None]
                if not least <= len(fitting) <= most:
                    return f"{at} fits {len(fitting)} of {word}: {value!r}"
        types = schema.get("type", [])
        if types and not any(_is(value, name) for name in ([types] if isinstance(types, str) else types)):
            return f"{at} is not {types}: {value!r}"
        if isinstance(value, dict):
            return self._object_problem(value, schema, at)
        if isinstance(value, list):
            items = schema.get("items", {})
            return next(filter(None, (self.problem(one, items, f"{at}[{i}]") for i, one in enumerate(value))), None)
        return _scalar_problem(value, schema, at)

    def _object_problem(self, value: dict[str, Any], schema: Mapping[str, Any], at: str) -> str | None:
        absent = [name for name in schema.get("required", ()) if name not in value]
        if absent:
            return f"{at} lacks {absent}"
        properties = schema.get("properties", {})
        others = schema.get("additionalProperties", True)
        for name, content in value.items():
            if name not in properties and others is False:
                return f"{at} has {name}"
            inner = properties.get(name, others if isinstance(others, dict) else {})
            problem = self.problem(content, inner, f"{at}.{name}")
            if problem is not None:
                return problem
        return None

    def _find(self, method: str, path: str) -> Mapping[str, Any] | None:
        path = path.partition("?")[0]
        path = path.rstrip("/") or "/"
        found = [operations for pattern, operations in self._routes if pattern.fullmatch(path)]
        return next((each[method.lower()] for each in found if method.lower() in each), None)

    def _resolve(self, schema: Mapping[str, Any]) -> Mapping[str, Any]:
        while "$ref" in schema:
            found: Any = self._document
            for name in schema["$ref"].removeprefix("#/").split("/"):
                found = found[name]
            schema = found
        return schema


def _scalar_problem(value: Any, schema: Mapping[str, Any], at: str) -> str | None:
    if "enum" in schema and value not in schema["enum"]:
        return f"{at} is none of {schema['enum']}: {value!r}"
    if isinstance(value, int) and not schema.get("minimum", value) <= value <= schema.get("maximum", value):
        return f"{at} is out of bounds: {value}"
    if isinstance(value, str) and not re.search(schema.get("pattern", ""), value):
        return f"{at} does not match {schema['pattern']}: {value!r}"
    return None


def _values(text: str) -> Iterator[Any]:
    """JSON values one behind the other."""
    decoder, at = json.JSONDecoder(), 0
    while text[at:].strip():
        at += len(text[at:]) - len(text[at:].lstrip())
        value, at = decoder.raw_decode(text, at)
        yield value


def _is(value: Any, name: str) -> bool:
    kinds = {"object": dict, "array": list, "string": str, "null": type(None), "boolean": bool}
    if name in ("integer", "number"):
        return isinstance(value, int if name == "integer" else int | float) and not isinstance(value, bool)
    return isinstance(value, kinds[name])
