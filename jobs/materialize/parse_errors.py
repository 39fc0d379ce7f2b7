"""Explains why a value is not a JSON record of a schema, for the reason in its dead letter. Pure.

Spark only reports that it is not; this module looks for the first misfit. If it finds none, it gives a general reason.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, cast

from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DataType,
    DecimalType,
    FractionalType,
    IntegralType,
    MapType,
    StringType,
    StructType,
)

__all__ = ["NULL", "explain_json"]

NULL: Final = "the value is null"
_SHOWN: Final = 60
_BITS: Final[Mapping[str, int]] = {"tinyint": 8, "smallint": 16, "int": 32, "bigint": 64}


def explain_json(value: bytes | None, schema: StructType) -> str:
    if value is None:
        return NULL
    try:
        text = value.decode()
    except UnicodeDecodeError as error:
        return f"it is not UTF-8: {error.reason} at byte {error.start}"
    try:
        found = json.loads(text, parse_constant=_refuse)
    except (ValueError, RecursionError) as error:
        return f"it is not JSON: {error}"
    if not isinstance(found, dict):
        return f"it is JSON, but no object: {_shown(found)}"
    return next(_misfits(found, schema, ""), "it does not fit the schema")


def _misfits(value: Any, kind: DataType, path: str) -> Iterator[str]:
    if isinstance(kind, StructType) and isinstance(value, dict):
        found = cast("dict[str, Any]", value)
        fields = ((f"{path}.{each.name}", found.get(each.name), each.dataType, each.nullable) for each in kind.fields)
        yield from _inside(fields)
    elif isinstance(kind, ArrayType) and isinstance(value, list):
        yield from _inside(
            (f"{path}[{number}]", each, kind.elementType, kind.containsNull)
            for number, each in enumerate(cast("list[Any]", value))
        )
    elif isinstance(kind, MapType) and isinstance(value, dict):
        yield from _inside(
            (f"{path}[{name!r}]", each, kind.valueType, kind.valueContainsNull)
            for name, each in cast("dict[str, Any]", value).items()
        )
    elif not _fits(value, kind):
        yield f"{path.lstrip('.')} must be {kind.simpleString()}, and is {_shown(value)}"


def _inside(parts: Iterable[tuple[str, Any, DataType, bool]]) -> Iterator[str]:
    for path, value, kind, may_be_null in parts:
        if value is not None:
            yield from _misfits(value, kind, path)
        elif not may_be_null:
            yield f"{path.lstrip('.')} must be there"


def _fits(value: Any, kind: DataType) -> bool:
    """Return whether a value may fit a type; False only if it certainly does not."""
    if isinstance(kind, StringType):
        return True
    if isinstance(kind, BooleanType):
        return isinstance(value, bool)
    if isinstance(kind, IntegralType):
        bits = _BITS.get(kind.simpleString(), 64)
        return type(value) is int and -(1 << (bits - 1)) <= value < 1 << (bits - 1)
    if isinstance(kind, (FractionalType, DecimalType)):
        return isinstance(value, (int, float, str)) and not isinstance(value, bool)
    return not isinstance(value, (bool, dict, list)) and not isinstance(kind, (StructType, ArrayType, MapType))


def _shown(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


def _refuse(name: str) -> None:
    raise ValueError(f"{name} is no number of JSON")
