"""Schema of the output: its fields by the options and the existing table, and those that the table lacks.

It knows no server and stores nothing; it reads a schema given as a file.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from pyspark.sql.types import ArrayType, DataType, MapType, StructField, StructType, VariantType

from delta_log.model.errors import InvalidRequest
from jobs.materialize.columns import RAW, check_fields, evolved, fields_of, output_schema
from jobs.materialize.decoding import Wire, open_decoder
from jobs.materialize.parsing import How
from jobs.materialize.schemas import parse_schema, read_bytes, with_more

__all__ = ["Shape", "decide_shape"]

Infer = Callable[[], StructType]


@dataclass(frozen=True, slots=True)
class Shape:
    """Planned schema. `table`: to create it with, or to widen it to; `added`: paths of the fields that it lacks."""

    how: How
    table: StructType
    is_new: bool
    added: tuple[str, ...]

    def fitted(self, table: StructType) -> How:
        """Return how to parse, with the columns as in the table."""
        there = {field.name.lower(): field for field in table.fields}
        return replace(self.how, columns=StructType([there[field.name.lower()] for field in self.how.fields.fields]))


def decide_shape(options: argparse.Namespace, table: StructType | None, infer: Infer) -> Shape:
    """Decide the schema; InvalidRequest if it is impossible or needs an option. `infer` is the last resort."""
    wire = _wire(options)
    fields = RAW if options.format == "raw" else _fields(options, wire, table, infer)
    made = RAW
    if options.format != "raw":
        check_fields(fields)
        made = output_schema(fields)
    how = How(options.format, fields, fields, wire)
    how = replace(how, by=(how.key,) if options.merge_by_key else _by(options.merge_by, fields))
    if table is None:
        return Shape(how, made, is_new=True, added=())
    wanted = StructType([StructField(field.name, field.dataType) for field in made.fields])
    return Shape(how, wanted, is_new=False, added=tuple(evolved(table, wanted, evolve=options.evolve)))


def _wire(options: argparse.Namespace) -> Wire | None:
    if options.format in {"avro", "protobuf"}:
        return Wire(options.format, read_bytes(options.schema), options.message or "")
    return None


def _fields(options: argparse.Namespace, wire: Wire | None, table: StructType | None, infer: Infer) -> StructType:
    if wire is not None:
        return open_decoder(wire).fields
    if options.schema:
        return parse_schema(options.schema)
    known = StructType() if table is None else fields_of(table)
    if table is not None and not (options.infer and options.evolve):
        return known
    if not options.infer:
        raise InvalidRequest("there is no table yet: say what its fields are, by --schema, or --infer them")
    found = with_more(known, infer())
    if not found.fields:
        raise InvalidRequest("there is no record yet that is a JSON object with fields: say --schema")
    return found


def _by(names: Sequence[str], fields: StructType) -> tuple[str, ...]:
    there = {field.name.lower(): field for field in fields.fields}
    for name in names:
        field = there.get(name.lower())
        if field is None and name.lower().partition(".")[0] in there:
            raise InvalidRequest(f"--merge-by: {name!r} is within a field, and rows are merged by whole ones")
        if field is None:
            raise InvalidRequest(f"--merge-by: there is no field {name!r}")
        if not _has_equals(field.dataType):
            raise InvalidRequest(f"--merge-by: {name} is {field.dataType.simpleString()}, which nothing is equal to")
    return tuple(there[name.lower()].name for name in names)


def _has_equals(kind: DataType) -> bool:
    """Return whether Spark can compare values of a type for equality."""
    if isinstance(kind, StructType):
        return all(_has_equals(field.dataType) for field in kind.fields)
    if isinstance(kind, ArrayType):
        return _has_equals(kind.elementType)
    return not isinstance(kind, (MapType, VariantType))
