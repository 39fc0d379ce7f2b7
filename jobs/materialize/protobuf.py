"""Protobuf: decodes messages of one type, without framing, to values of Spark. Pure.

An unset field is null if it has presence, and its default otherwise, as in proto3. Unsigned numbers take the next wider
type, an enum is the name of its value, and `google.protobuf.Timestamp` is a timestamp.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping
from typing import Any, Final

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from delta_log.model.errors import InvalidRequest
from jobs.materialize.decoding import Unparseable

__all__ = ["ProtobufDecoder"]

_TYPES: Final[Mapping[int, DataType]] = {
    FieldDescriptor.TYPE_BOOL: BooleanType(),
    FieldDescriptor.TYPE_INT32: IntegerType(),
    FieldDescriptor.TYPE_SINT32: IntegerType(),
    FieldDescriptor.TYPE_SFIXED32: IntegerType(),
    FieldDescriptor.TYPE_UINT32: LongType(),
    FieldDescriptor.TYPE_FIXED32: LongType(),
    FieldDescriptor.TYPE_INT64: LongType(),
    FieldDescriptor.TYPE_SINT64: LongType(),
    FieldDescriptor.TYPE_SFIXED64: LongType(),
    FieldDescriptor.TYPE_UINT64: DecimalType(20, 0),
    FieldDescriptor.TYPE_FIXED64: DecimalType(20, 0),
    FieldDescriptor.TYPE_FLOAT: FloatType(),
    FieldDescriptor.TYPE_DOUBLE: DoubleType(),
    FieldDescriptor.TYPE_STRING: StringType(),
    FieldDescriptor.TYPE_BYTES: BinaryType(),
    FieldDescriptor.TYPE_ENUM: StringType(),
}
_TIMESTAMP: Final = "google.protobuf.Timestamp"
_EPOCH: Final = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)

Read = Callable[[Any], Any]


class ProtobufDecoder:
    """Decoder; `descriptors` is output of `protoc --include_imports --descriptor_set_out`, `message` a name in it."""

    def __init__(self, descriptors: bytes, message: str) -> None:
        pool = descriptor_pool.DescriptorPool()
        try:
            for each in descriptor_pb2.FileDescriptorSet.FromString(descriptors).file:
                pool.Add(each)
        except Exception as error:
            raise InvalidRequest(
                f"--schema is not what `protoc --include_imports --descriptor_set_out` writes: {error}"
            ) from error
        try:
            kind = pool.FindMessageTypeByName(message)
        except KeyError as error:
            raise InvalidRequest(f"--message: there is no {message!r} in --schema") from error
        self._class = message_factory.GetMessageClass(kind)
        self._read, self._fields = _of_message(kind, ())

    @property
    def fields(self) -> StructType:
        return self._fields

    def decode(self, value: bytes) -> dict[str, Any]:
        try:
            return self._read(self._class.FromString(value))
        except Exception as error:
            said = " ".join(str(error).split()) or type(error).__name__
            raise Unparseable(f"it is no message of the type: {said}") from error


def _of_message(kind: Descriptor, within: tuple[str, ...]) -> tuple[Read, StructType]:
    if kind.full_name in within:
        raise InvalidRequest(f"the message {kind.full_name} is within itself: no column can be that")
    parts = [(field.name, field.has_presence, *_of_field(field, (*within, kind.full_name))) for field in kind.fields]

    def read(message: Message) -> dict[str, Any]:
        return {
            name: get(getattr(message, name)) if not knows or message.HasField(name) else None
            for name, knows, get, _ in parts
        }

    return read, StructType([StructField(name, inside) for name, _, _, inside in parts])


def _of_field(field: FieldDescriptor, within: tuple[str, ...]) -> tuple[Read, DataType]:
    kind: Descriptor | None = field.message_type
    if kind is not None and kind.GetOptions().map_entry:
        key, value = kind.fields_by_name["key"], kind.fields_by_name["value"]
        (get_key, key_type), (get_value, value_type) = _of_one(key, within), _of_one(value, within)
        return (lambda found: {get_key(each): get_value(of) for each, of in found.items()}), MapType(
            key_type, value_type
        )
    get, inside = _of_one(field, within)
    if field.is_repeated:
        return (lambda found: [get(each) for each in found]), ArrayType(inside)
    return get, inside


def _of_one(field: FieldDescriptor, within: tuple[str, ...]) -> tuple[Read, DataType]:
    if field.enum_type is not None:
        names = {number: of.name for number, of in field.enum_type.values_by_number.items()}
        return (lambda number: names.get(number, str(number))), StringType()
    kind: Descriptor | None = field.message_type
    if kind is None:
        return (lambda found: found), _TYPES[field.type]
    if kind.full_name == _TIMESTAMP:
        return _as_time, TimestampType()
    return _of_message(kind, within)


def _as_time(of: Any) -> dt.datetime:
    return _EPOCH + dt.timedelta(seconds=of.seconds, microseconds=of.nanos // 1000)
