"""A set of Protobuf descriptors, as protoc writes it: messages of a package `shop`."""

from __future__ import annotations

from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, timestamp_pb2
from google.protobuf.descriptor_pb2 import FieldDescriptorProto as Field


def message_class(descriptors: bytes, name: str) -> Any:
    """Of a full name: what messages are made with, to be written as bytes."""
    pool = descriptor_pool.DescriptorPool()
    for each in descriptor_pb2.FileDescriptorSet.FromString(descriptors).file:
        pool.Add(each)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(name))


def descriptor_set(*, newer: bool = False) -> bytes:
    """Order with fields of all kinds, and Tree, which is within itself. Newer ones have more fields."""
    file = descriptor_pb2.FileDescriptorProto(
        name="shop.proto", package="shop", syntax="proto3", dependency=["google/protobuf/timestamp.proto"]
    )
    kind = file.enum_type.add(name="Kind")
    kind.value.add(name="PLAIN", number=0)
    kind.value.add(name="GIFT", number=1)
    if newer:
        kind.value.add(name="SAMPLE", number=2)
    line = file.message_type.add(name="Line")
    _add(line, "what", 1, Field.TYPE_STRING)
    if newer:
        _add(line, "count", 2, Field.TYPE_UINT32)
    order = file.message_type.add(name="Order")
    _add(order, "id", 1, Field.TYPE_INT64)
    _add(order, "name", 2, Field.TYPE_STRING)
    _add(order, "large", 3, Field.TYPE_UINT64)
    _add(order, "kind", 4, Field.TYPE_ENUM, ".shop.Kind")
    _add(order, "lines", 5, Field.TYPE_MESSAGE, ".shop.Line", repeated=True)
    _add(order, "at", 6, Field.TYPE_MESSAGE, ".google.protobuf.Timestamp")
    note = _add(order, "note", 7, Field.TYPE_STRING)
    note.proto3_optional, note.oneof_index = True, 0
    order.oneof_decl.add(name="_note")
    entry = order.nested_type.add(name="CountsEntry")
    entry.options.map_entry = True
    _add(entry, "key", 1, Field.TYPE_STRING)
    _add(entry, "value", 2, Field.TYPE_INT32)
    _add(order, "counts", 8, Field.TYPE_MESSAGE, ".shop.Order.CountsEntry", repeated=True)
    if newer:
        _add(order, "paid", 9, Field.TYPE_BOOL)
        _add(order, "gift", 10, Field.TYPE_MESSAGE, ".shop.Line")
    tree = file.message_type.add(name="Tree")
    _add(tree, "branch", 1, Field.TYPE_MESSAGE, ".shop.Tree")
    found = descriptor_pb2.FileDescriptorSet()
    timestamp_pb2.DESCRIPTOR.CopyToProto(found.file.add())
    found.file.append(file)
    return found.SerializeToString()


def _add(
    of: descriptor_pb2.DescriptorProto,
    name: str,
    number: int,
    kind: int,
    type_name: str = "",
    *,
    repeated: bool = False,
) -> Field:
    label = Field.LABEL_REPEATED if repeated else Field.LABEL_OPTIONAL
    return of.field.add(name=name, number=number, type=kind, type_name=type_name or None, label=label)
