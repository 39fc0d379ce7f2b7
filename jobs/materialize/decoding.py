"""Decoding of binary formats to values of Spark, in its Python workers: the part common to all formats.

A decoder knows the type of its records, and decodes one value or raises the reason. Each worker creates its own, from a
serializable description.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, Literal, Protocol

import pyarrow as pa
from pyspark.sql import Column
from pyspark.sql.types import StringType, StructField, StructType

from delta_log.model.errors import NotAvailable

__all__ = ["Decoder", "Unparseable", "Wire", "decode_all", "decoded", "open_decoder"]

_NULL: Final = "the value is null"


class Unparseable(Exception):
    """A value is not a record; the message is the reason."""


class Decoder(Protocol):
    """Decoder of values; `fields` are those of every record."""

    @property
    def fields(self) -> StructType: ...

    def decode(self, value: bytes) -> dict[str, Any]:
        """Decode one value; Unparseable if it is no record."""
        ...


@dataclass(frozen=True, slots=True)
class Wire:
    """Description of a decoder: a format, the content of its schema file, and the name of a message in that."""

    format: Literal["avro", "protobuf"]
    schema: bytes
    message: str = ""


@lru_cache(maxsize=16)
def open_decoder(wire: Wire) -> Decoder:
    """Create a decoder; InvalidRequest for an invalid schema, NotAvailable if the format's library is not installed."""
    try:
        if wire.format == "avro":
            from jobs.materialize.avro import AvroDecoder  # noqa: PLC0415 - needed by this format only

            return AvroDecoder(wire.schema)
        from jobs.materialize.protobuf import ProtobufDecoder  # noqa: PLC0415 - likewise

        return ProtobufDecoder(wire.schema, wire.message)
    except ImportError as error:
        raise NotAvailable(f"{wire.format} needs what lakelog[formats] brings: {error}") from error


def decoded(value: Column, wire: Wire) -> Column:
    """Column with a struct of `record`, null if the value is none, and `reason` for that."""
    from pyspark.sql.functions import arrow_udf  # noqa: PLC0415 - needs a session
    from pyspark.sql.pandas.types import to_arrow_type  # noqa: PLC0415 - likewise

    fields = open_decoder(wire).fields
    answer = StructType([StructField("record", fields), StructField("reason", StringType())])
    kind: pa.DataType = to_arrow_type(fields, timezone="UTC")

    def decode(values: pa.Array) -> pa.Array:
        return decode_all(values.to_pylist(), open_decoder(wire).decode, kind)

    made: Any = arrow_udf  # its overloads have no function with a type
    return made(decode, returnType=answer)(value)


def decode_all(
    values: Sequence[bytes | None], decode: Callable[[bytes], dict[str, Any]], kind: pa.DataType
) -> pa.StructArray:
    """Decode values; one that does not fit does not affect the others."""
    rows = [_one(value, decode) for value in values]
    records: list[Any] = [record for record, _ in rows]
    reasons = [reason for _, reason in rows]
    try:
        array = pa.array(records, kind)
    except (pa.ArrowException, ValueError, TypeError, OverflowError):
        pieces: list[pa.Array] = []
        for number, record in enumerate(records):
            try:
                pieces.append(pa.array([record], kind))
            except (pa.ArrowException, ValueError, TypeError, OverflowError) as error:
                pieces.append(pa.nulls(1, kind))
                reasons[number] = f"a value is out of range: {error}"
        array = pa.concat_arrays(pieces)
    return pa.StructArray.from_arrays([array, pa.array(reasons, pa.string())], names=["record", "reason"])


def _one(value: bytes | None, decode: Callable[[bytes], dict[str, Any]]) -> tuple[dict[str, Any] | None, str | None]:
    if value is None:
        return None, _NULL
    try:
        return decode(value), None
    except Unparseable as error:
        return None, str(error)
