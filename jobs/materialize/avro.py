"""Avro: decodes records of one schema, without framing, to values of Spark. Pure.

Types are those of Spark's own Avro reader: a union with null is nullable, an enum is a string, dates and timestamps
keep their type, and logical types without a Spark type are read as their underlying type.
"""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from typing import Any, Final, cast

import fastavro
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from delta_log.model.errors import InvalidRequest
from jobs.materialize.decoding import Unparseable

__all__ = ["AvroDecoder"]

_PLAIN: Final[Mapping[str, DataType]] = {
    "boolean": BooleanType(),
    "int": IntegerType(),
    "long": LongType(),
    "float": FloatType(),
    "double": DoubleType(),
    "string": StringType(),
    "bytes": BinaryType(),
    "fixed": BinaryType(),
    "enum": StringType(),
}
_LOGICAL: Final[Mapping[tuple[str, str], DataType]] = {
    ("int", "date"): DateType(),
    ("long", "timestamp-millis"): TimestampType(),
    ("long", "timestamp-micros"): TimestampType(),
    ("long", "local-timestamp-millis"): TimestampNTZType(),
    ("long", "local-timestamp-micros"): TimestampNTZType(),
}
#: Common type of a union of two types.
_WIDER: Final[Mapping[frozenset[object], DataType]] = {
    frozenset({"int", "long"}): LongType(),
    frozenset({"float", "double"}): DoubleType(),
}
_DIGITS: Final = 38
_NESTED: Final = frozenset({"type", "items", "values", "fields"})


class AvroDecoder:
    """Decoder of Avro records; `schema` is the content of an Avro schema file, JSON."""

    def __init__(self, schema: bytes) -> None:
        try:
            # Names are full and unique from here on.
            self._schema: Any = fastavro.parse_schema(_without_odd_types(json.loads(schema)))
        except Exception as error:
            raise InvalidRequest(f"--schema is no Avro schema: {error}") from error
        found = _Types().of(self._schema, "")
        if not isinstance(found, StructType):
            raise InvalidRequest(f"the Avro schema is {found.simpleString()}, and a table needs a record")
        self._fields = found

    @property
    def fields(self) -> StructType:
        return self._fields

    def decode(self, value: bytes) -> dict[str, Any]:
        body = io.BytesIO(value)
        try:
            read = cast("Any", fastavro.schemaless_reader)  # pyright: ignore[reportUnknownMemberType] - of any file
            record: Any = read(body, self._schema, None)
        except Exception as error:
            said = " ".join(str(error).split()) or type(error).__name__
            raise Unparseable(f"it is no Avro record of the schema: {said}") from error
        left = len(value) - body.tell()
        if left:
            raise Unparseable(f"it is no Avro record of the schema: {left} bytes are left over")
        return record


class _Types:
    """Spark types of a parsed schema. A name refers to its earlier definition."""

    def __init__(self) -> None:
        self._named: dict[str, DataType] = {}

    def of(self, schema: Any, path: str) -> DataType:
        if isinstance(schema, list):
            branches = cast("list[Any]", schema)
            return self._union([branch for branch in branches if branch != "null"], path)
        if isinstance(schema, str):
            found = _PLAIN.get(schema) or self._named.get(schema)
            if found is None:
                raise _no_column(path, "is within itself" if schema != "null" else "is nothing but null")
            return found
        kind = schema["type"]
        if kind == "record":
            fields = [
                StructField(each["name"], self.of(each["type"], f"{path}.{each['name']}")) for each in schema["fields"]
            ]
            found = StructType(fields)
        elif kind == "array":
            found = ArrayType(self.of(schema["items"], path))
        elif kind == "map":
            found = MapType(StringType(), self.of(schema["values"], path))
        else:
            found = _logical(schema) or self.of(kind, path)
        if "name" in schema:
            self._named[schema["name"]] = found
        return found

    def _union(self, branches: list[Any], path: str) -> DataType:
        if len(branches) == 1:
            return self.of(branches[0], path)
        wider = _WIDER.get(frozenset(each if isinstance(each, str) else id(each) for each in branches))
        if wider is None:
            raise _no_column(path, "is a union of several types")
        return wider


def _logical(schema: Mapping[str, Any]) -> DataType | None:
    logical = schema.get("logicalType")
    if logical == "decimal":
        return DecimalType(schema["precision"], schema.get("scale", 0))
    return _LOGICAL.get((schema["type"], str(logical)))


def _without_odd_types(schema: Any) -> Any:
    """Remove logical types without a Spark type, so that their underlying type is read."""
    if isinstance(schema, list):
        return [_without_odd_types(each) for each in cast("list[Any]", schema)]
    if not isinstance(schema, dict):
        return schema
    of_type = cast("dict[str, Any]", schema)
    plain = {name: _without_odd_types(of) if name in _NESTED else of for name, of in of_type.items()}
    logical, precision = of_type.get("logicalType"), of_type.get("precision")
    fits = logical == "decimal" and isinstance(precision, int) and precision <= _DIGITS
    if not fits and (str(of_type.get("type")), str(logical)) not in _LOGICAL:
        plain.pop("logicalType", None)
    return plain


def _no_column(path: str, why: str) -> InvalidRequest:
    return InvalidRequest(f"the Avro schema's {path.lstrip('.') or 'root'} {why}: no column can be that")
