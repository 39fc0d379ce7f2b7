"""Columns of the output: the fields of a record, and its origin. Pure.

Names are compared case-insensitively, as in Delta. A table has the parsed fields, followed by the ORIGIN; a raw one has
the columns of the source unchanged.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from delta_log.model.errors import InvalidRequest
from jobs.source.columns import HEADERS

__all__ = ["ORIGIN", "RAW", "aligned", "check_fields", "evolved", "fields_of", "missing", "output_schema", "requires"]

ORIGIN: Final = StructType(
    [
        StructField("_topic", StringType()),
        StructField("_partition", IntegerType()),
        StructField("_offset", LongType()),
        StructField("_timestamp", TimestampType()),
        StructField("_key", BinaryType()),
    ]
)
RAW: Final = StructType(
    [
        StructField("key", BinaryType()),
        StructField("value", BinaryType()),
        StructField("topic", StringType()),
        StructField("partition", IntegerType()),
        StructField("offset", LongType()),
        StructField("timestamp", TimestampType()),
        StructField("headers", HEADERS),
    ]
)
_ORIGIN_NAMES: Final = frozenset(field.name for field in ORIGIN.fields)
#: Characters that Delta refuses in names without column mapping.
_NO_NAMES: Final = frozenset(" ,;{}()\n\t=")


def output_schema(fields: StructType) -> StructType:
    """Schema of a table created for these fields. Non-null nested fields are enforced by the job only."""
    kept = [StructField(each.name, _nullable(each.dataType), each.nullable) for each in fields.fields]
    return StructType([*kept, *ORIGIN.fields])


def fields_of(table: StructType) -> StructType:
    """Fields of a table without those of the origin."""
    return StructType([field for field in table.fields if field.name.lower() not in _ORIGIN_NAMES])


def check_fields(fields: StructType) -> None:
    """Raise InvalidRequest if no table can have these fields."""
    if not fields.fields:
        raise InvalidRequest("the schema has no field")
    _check_names(fields, "")
    for field in fields.fields:
        if field.name.lower() in _ORIGIN_NAMES:
            raise InvalidRequest(
                f"the schema has a field {field.name!r}: that column is to say where a record came from"
            )


def evolved(table: StructType, wanted: StructType, *, evolve: bool) -> list[str]:
    """Paths of the fields that a table lacks; InvalidRequest if they may not, or cannot, be added."""
    lacking: list[str] = []
    _compare(table, wanted, "", lacking)
    if lacking and not evolve:
        raise InvalidRequest(
            f"the table has no {_listed(lacking)}: --evolve adds what the schema has and the table has not"
        )
    return lacking


def aligned(value: Column, has: DataType, wanted: DataType) -> Column:
    """Convert a value to a type that has all of its fields and perhaps more; those are null."""
    if has == wanted or _nullable(has) == _nullable(wanted):
        return value
    if isinstance(has, StructType) and isinstance(wanted, StructType):
        by_name = {field.name.lower(): field for field in has.fields}
        parts = [
            aligned(value.getField(there.name), there.dataType, field.dataType).alias(field.name)
            if (there := by_name.get(field.name.lower()))
            else F.lit(None).cast(field.dataType).alias(field.name)
            for field in wanted.fields
        ]
        return F.when(value.isNotNull(), F.struct(*parts))
    if isinstance(has, ArrayType) and isinstance(wanted, ArrayType):
        return F.transform(value, lambda each: aligned(each, has.elementType, wanted.elementType))
    if isinstance(has, MapType) and isinstance(wanted, MapType):
        return F.transform_values(value, lambda _, each: aligned(each, has.valueType, wanted.valueType))
    return value.cast(wanted)


def requires(kind: DataType) -> bool:
    """Return whether a type has nested parts that must not be null."""
    if isinstance(kind, StructType):
        return any(not field.nullable or requires(field.dataType) for field in kind.fields)
    if isinstance(kind, ArrayType):
        return not kind.containsNull or requires(kind.elementType)
    return isinstance(kind, MapType) and (not kind.valueContainsNull or requires(kind.valueType))


def missing(value: Column, kind: DataType) -> Column:
    """Condition: a nested part of a value is null against its type. Never null itself, and false for a null value."""
    if isinstance(kind, StructType):
        parts = [_missing(value.getField(each.name), each.dataType, may_be_null=each.nullable) for each in kind.fields]
        return value.isNotNull() & _any_of(parts)
    if isinstance(kind, MapType):
        return missing(F.map_values(value), ArrayType(kind.valueType, kind.valueContainsNull))
    assert isinstance(kind, ArrayType)  # noqa: S101 - no other type has nested parts
    found = F.exists(value, lambda each: _missing(each, kind.elementType, may_be_null=kind.containsNull))
    return F.coalesce(found, F.lit(False))  # noqa: FBT003 - a column that is false


def _missing(value: Column, kind: DataType, *, may_be_null: bool) -> Column:
    found = [] if may_be_null else [value.isNull()]
    found += [missing(value, kind)] if requires(kind) else []
    return _any_of(found)


def _any_of(found: Sequence[Column]) -> Column:
    whole = F.lit(False)  # noqa: FBT003 - a column that is false
    for each in found:
        whole = whole | each
    return whole


def _compare(table: DataType, wanted: DataType, path: str, lacking: list[str]) -> None:
    if isinstance(table, StructType) and isinstance(wanted, StructType):
        there = {field.name.lower(): field for field in table.fields}
        for field in wanted.fields:
            here = f"{path}{field.name}"
            found = there.get(field.name.lower())
            if found is None:
                lacking.append(here)
            else:
                _compare(found.dataType, field.dataType, f"{here}.", lacking)
    elif isinstance(table, ArrayType) and isinstance(wanted, ArrayType):
        _compare(table.elementType, wanted.elementType, f"{path}element.", lacking)
    elif isinstance(table, MapType) and isinstance(wanted, MapType):
        _compare(table.keyType, wanted.keyType, f"{path}key.", lacking)
        _compare(table.valueType, wanted.valueType, f"{path}value.", lacking)
    elif type(table) is not type(wanted) or _nullable(table) != _nullable(wanted):
        raise InvalidRequest(
            f"the table's {path.rstrip('.') or 'row'} is {table.simpleString()}, and by the schema it is "
            f"{wanted.simpleString()}"
        )


def _check_names(kind: DataType, path: str) -> None:
    if isinstance(kind, StructType):
        names: set[str] = set()
        for field in kind.fields:
            here = f"{path}{field.name}"
            if field.name.lower() in names:
                raise InvalidRequest(f"the schema has {here!r} twice: columns do not differ by case")
            if not field.name or _NO_NAMES & set(field.name):
                raise InvalidRequest(f"the schema has a field {here!r}, and no table can have such a column")
            if isinstance(field.dataType, StructType) and not field.dataType.fields:
                raise InvalidRequest(f"the schema has a field {here!r} with nothing in it")
            names.add(field.name.lower())
            _check_names(field.dataType, f"{here}.")
    elif isinstance(kind, ArrayType):
        _check_names(kind.elementType, f"{path}element.")
    elif isinstance(kind, MapType):
        _check_names(kind.valueType, f"{path}value.")


def _nullable(kind: DataType) -> DataType:
    if isinstance(kind, StructType):
        return StructType([StructField(each.name, _nullable(each.dataType)) for each in kind.fields])
    if isinstance(kind, ArrayType):
        return ArrayType(_nullable(kind.elementType))
    if isinstance(kind, MapType):
        return MapType(_nullable(kind.keyType), _nullable(kind.valueType))
    return kind


def _listed(names: Sequence[str]) -> str:
    return ", ".join(repr(name) for name in names)
