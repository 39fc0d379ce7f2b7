"""JSON schemas of declared shapes: msgspec types by their names, once for the whole document. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, cast

import msgspec

REF: Final = "#/components/schemas/{name}"


class Schemas:
    """`of` returns the schema of a declared shape; `components` are the schemas that it refers to."""

    def __init__(self, shapes: Iterable[Any]) -> None:
        types: list[Any] = []
        for shape in shapes:
            types += [found for found in _types_in(shape) if found not in types]
        made, self.components = msgspec.json.schema_components(types, ref_template=REF)
        self._made = list(zip(types, made, strict=True))

    def of(self, shape: Any) -> dict[str, Any]:
        """Return the schema of a shape: a type, or a JSON schema with types in it."""
        return cast("dict[str, Any]", self._resolve(shape))

    def _resolve(self, shape: Any) -> Any:
        if isinstance(shape, Mapping):
            given = cast("Mapping[str, Any]", shape)
            return {name: self._resolve(part) for name, part in given.items()}
        if isinstance(shape, list | tuple):
            return [self._resolve(part) for part in cast("list[Any]", shape)]
        if _is_value(shape):
            return shape
        return next(schema for known, schema in self._made if known == shape)


def _types_in(shape: Any) -> Iterable[Any]:
    if isinstance(shape, Mapping):
        for part in cast("Mapping[str, Any]", shape).values():
            yield from _types_in(part)
    elif isinstance(shape, list | tuple):
        for part in cast("list[Any]", shape):
            yield from _types_in(part)
    elif not _is_value(shape):
        yield shape


def _is_value(shape: Any) -> bool:
    return shape is None or isinstance(shape, str | bool | int | float)
