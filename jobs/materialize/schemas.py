"""Schemas of records: given by an option, or inferred from records.

A schema is given as DDL, as Spark's JSON form of a schema, or as a file with either. The only effect here is reading
that file; parsing DDL needs a session.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention
from pyspark.sql.types import ArrayType, DataType, MapType, StructField, StructType

from delta_log.model.errors import InvalidRequest
from jobs.foundation.result import one_sentence

__all__ = ["SAMPLE", "as_sample", "infer", "parse_schema", "read_bytes", "with_more"]

#: Maximum number of records from which a schema is inferred.
SAMPLE: Final = 1_000


def parse_schema(text: str) -> StructType:
    """Parse the option: a schema, or the name of a file with one."""
    said = _text_of(text)
    try:
        if said.lstrip().startswith("{"):
            return StructType.fromJson(json.loads(said))
        found = StructType.fromDDL(said)
    except Exception as error:
        what = "no schema" if said != text else "neither a file that can be read nor a schema"
        raise InvalidRequest(f"--schema is {what}: {one_sentence(error)}") from error
    if not isinstance(found, StructType):
        raise InvalidRequest(f"--schema is {found.simpleString()}, and must be fields, as in 'id BIGINT, name STRING'")
    return found


def read_bytes(name: str) -> bytes:
    """Read a file that must exist."""
    try:
        return Path(name).read_bytes()
    except OSError as error:
        raise InvalidRequest(f"--schema {name} cannot be read: {error.strerror}") from error


def as_sample(values: Iterable[bytes | None]) -> list[str]:
    """Values that are JSON objects, as text."""
    return [text for value in values if (text := _object(value)) is not None]


def infer(spark: SparkSession, sample: list[str]) -> StructType:
    """Infer the fields of objects by Spark's own rules; structs that are always empty are left out."""
    if not sample:
        return StructType()
    (row,) = spark.range(1).select(F.schema_of_json(F.lit(f"[{','.join(sample)}]"))).collect()
    kind = DataType.fromDDL(row[0])
    found = _without_nothing(kind.elementType if isinstance(kind, ArrayType) else kind)
    return found if isinstance(found, StructType) else StructType()


def with_more(first: StructType, second: StructType) -> StructType:
    """Fields of the first, and those of the second that it lacks."""
    names = {field.name.lower() for field in first.fields}
    return StructType([*first.fields, *(field for field in second.fields if field.name.lower() not in names)])


def _text_of(text: str) -> str:
    try:
        path = Path(text)
        return path.read_text(encoding="utf-8") if path.is_file() else text
    except (OSError, ValueError):
        return text


def _object(value: bytes | None) -> str | None:
    try:
        text = (value or b"").decode()
        return text if isinstance(json.loads(text), dict) else None
    except ValueError:
        return None


def _without_nothing(kind: DataType) -> DataType | None:
    """Remove structs without fields from a type."""
    if isinstance(kind, StructType):
        kept: list[Any] = [(field, _without_nothing(field.dataType)) for field in kind.fields]
        fields = [StructField(field.name, inside) for field, inside in kept if inside is not None]
        return StructType(fields) if fields else None
    if isinstance(kind, ArrayType):
        inside = _without_nothing(kind.elementType)
        return None if inside is None else ArrayType(inside)
    if isinstance(kind, MapType):
        inside = _without_nothing(kind.valueType)
        return None if inside is None else MapType(kind.keyType, inside)
    return kind
