"""Avro and Protobuf as values of Spark, and why a value is none: without a JVM."""

from __future__ import annotations

import datetime as dt
import io
import json
from contextlib import suppress
from decimal import Decimal
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.pandas.types import to_arrow_type
from pyspark.sql.types import IntegerType, StructField, StructType

from delta_log.model.errors import InvalidRequest
from jobs.materialize.avro import AvroDecoder
from jobs.materialize.decoding import Unparseable, Wire, decode_all, open_decoder
from jobs.materialize.parse_errors import explain_json
from jobs.materialize.protobuf import ProtobufDecoder
from tests.support.descriptors import descriptor_set

AT = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)


def field(name: str, kind: Any) -> dict[str, Any]:
    return {"name": name, "type": kind}


def record(*fields: dict[str, Any], name: str = "n.R") -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": list(fields)}


def avro(*fields: dict[str, Any]) -> AvroDecoder:
    return AvroDecoder(json.dumps(record(*fields)).encode())


def encoded(schema: Any, value: Any) -> bytes:
    body = io.BytesIO()
    fastavro.schemaless_writer(body, fastavro.parse_schema(schema), value)
    return body.getvalue()


def test_types_of_avro_are_those_of_sparks_own_reader():
    found = avro(
        field("e", {"type": "enum", "name": "E", "symbols": ["A"]}),
        field("again", ["null", "n.E"]),
        field("d", {"type": "bytes", "logicalType": "decimal", "precision": 5, "scale": 2}),
        field("day", {"type": "int", "logicalType": "date"}),
        field("ms", {"type": "long", "logicalType": "timestamp-millis"}),
        field("local", {"type": "long", "logicalType": "local-timestamp-micros"}),
        field("time", {"type": "int", "logicalType": "time-millis"}),
        field("u", {"type": "string", "logicalType": "uuid"}),
        field("wide", ["int", "long", "null"]),
        field("of", {"type": "array", "items": record(field("x", "double"), name="X")}),
        field("by", {"type": "map", "values": ["null", {"type": "fixed", "name": "F", "size": 2}]}),
    ).fields.simpleString()
    assert found == (
        "struct<e:string,again:string,d:decimal(5,2),day:date,ms:timestamp,local:timestamp_ntz,time:int,u:string,"
        "wide:bigint,of:array<struct<x:double>>,by:map<string,binary>>"
    )


@pytest.mark.parametrize(
    ("schema", "why"),
    [
        (b"nope", "no Avro schema"),
        (b'{"type": "record"}', "no Avro schema"),
        (b'"long"', "a table needs a record"),
        (json.dumps(record(field("u", ["int", "string"]))).encode(), "u is a union of several types"),
        (json.dumps(record(field("n", "null"))).encode(), "n is nothing but null"),
        (json.dumps(record(field("in", ["null", "n.R"]))).encode(), "in is within itself"),
    ],
)
def test_an_avro_schema_that_can_be_no_table_is_refused(schema: bytes, why: str):
    with pytest.raises(InvalidRequest, match=why):
        AvroDecoder(schema)


def test_avro_is_read_to_its_end_and_not_beyond():
    decoder = avro(field("a", "long"), field("b", ["null", "string"]))
    schema = record(field("a", "long"), field("b", ["null", "string"]))
    good = encoded(schema, {"a": 7, "b": "x"})
    assert decoder.decode(good) == {"a": 7, "b": "x"}
    for cut in range(len(good)):
        with pytest.raises(Unparseable, match="no Avro record"):
            decoder.decode(good[:cut])
    with pytest.raises(Unparseable, match="2 bytes are left over"):
        decoder.decode(good + b"xx")


@given(st.binary(max_size=40))
def test_any_bytes_are_a_record_or_unparseable(value: bytes):
    order = ProtobufDecoder(descriptor_set(), "shop.Order")
    for decoder in (avro(field("s", "string"), field("m", {"type": "map", "values": "bytes"})), order):
        with suppress(Unparseable):
            assert set(decoder.decode(value)) == set(decoder.fields.names)


def test_messages_are_read_with_their_defaults_and_what_was_not_set():
    decoder = open_decoder(Wire("protobuf", descriptor_set(), "shop.Order"))
    assert decoder.fields.simpleString() == (
        "struct<id:bigint,name:string,large:decimal(20,0),kind:string,lines:array<struct<what:string>>,at:timestamp,"
        "note:string,counts:map<string,int>>"
    )
    empty = {"id": 0, "name": "", "large": 0, "kind": "PLAIN", "lines": [], "at": None, "note": None, "counts": {}}
    assert decoder.decode(b"") == empty
    full = b"\x08\x07\x12\x03tea\x18\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\x20\x01\x2a\x05\x0a\x03cup"
    full += b"\x32\x06\x08" + varint(int(AT.timestamp())) + b"\x3a\x00\x42\x06\x0a\x02ab\x10\x05"
    expected = {"id": 7, "name": "tea", "large": 2**64 - 1, "kind": "GIFT", "lines": [{"what": "cup"}]}
    assert decoder.decode(full) == expected | {"at": AT, "note": "", "counts": {"ab": 5}}
    assert decoder.decode(b"\x20\x09")["kind"] == "9", "a value that the descriptors do not know"


def test_descriptors_that_can_be_no_table_are_refused():
    for descriptors, message, why in [
        (b"nope", "shop.Order", "not what `protoc"),
        (descriptor_set(), "shop.Nothing", "there is no 'shop.Nothing'"),
        (descriptor_set(), "shop.Tree", "within itself"),
    ]:
        with pytest.raises(InvalidRequest, match=why):
            ProtobufDecoder(descriptors, message)


def test_one_value_that_no_column_can_hold_keeps_no_other_back():
    fields = StructType([StructField("n", IntegerType())])
    kind = to_arrow_type(fields, timezone="UTC")

    def decode(value: bytes) -> dict[str, Any]:
        return {"n": int(value)}

    found = decode_all([b"1", b"3000000000", None, b"2"], decode, kind).to_pylist()
    assert [each["record"] for each in found] == [{"n": 1}, None, None, {"n": 2}]
    assert [bool(each["reason"]) for each in found] == [False, True, True, False]
    assert found[1]["reason"].startswith("a value is out of range")


def test_decimals_and_times_of_avro_are_columns():
    schema = record(
        field("d", {"type": "bytes", "logicalType": "decimal", "precision": 5, "scale": 2}),
        field("at", {"type": "long", "logicalType": "timestamp-millis"}),
    )
    decoder = AvroDecoder(json.dumps(schema).encode())
    kind: pa.DataType = to_arrow_type(decoder.fields, timezone="UTC")
    value = {"d": Decimal("1.50"), "at": AT}
    (found,) = decode_all([encoded(schema, value)], decoder.decode, kind).to_pylist()
    assert found == {"record": value, "reason": None}


SCHEMA = StructType.fromJson(
    json.loads(
        """{"type": "struct", "fields": [
            {"name": "a", "type": "integer", "nullable": false, "metadata": {}},
            {"name": "of", "type": {"type": "array", "elementType": "integer", "containsNull": false},
             "nullable": true, "metadata": {}},
            {"name": "in", "type": {"type": "struct", "fields": [
                {"name": "q", "type": "long", "nullable": false, "metadata": {}}]}, "nullable": true, "metadata": {}},
            {"name": "by", "type": {"type": "map", "keyType": "string", "valueType": "boolean",
             "valueContainsNull": true}, "nullable": true, "metadata": {}}]}"""
    )
)


@pytest.mark.parametrize(
    ("value", "why"),
    [
        (None, "the value is null"),
        (b"\xff", "it is not UTF-8: invalid start byte at byte 0"),
        (b"nope", "it is not JSON: Expecting value"),
        (b'{"a": 1} x', "it is not JSON: Extra data"),
        (b'{"a": NaN}', "it is not JSON: NaN is no number of JSON"),
        (b"[" * 100_000, "it is not JSON: "),
        (b"[1]", "it is JSON, but no object: [1]"),
        (b"{}", "a must be there"),
        (b'{"a": null}', "a must be there"),
        (b'{"a": "x"}', 'a must be int, and is "x"'),
        (b'{"a": true}', "a must be int, and is true"),
        (b'{"a": 3000000000}', "a must be int, and is 3000000000"),
        (b'{"a": 1, "of": {}}', "of must be array<int>, and is {}"),
        (b'{"a": 1, "of": [1, null]}', "of[1] must be there"),
        (b'{"a": 1, "of": [1, "b"]}', 'of[1] must be int, and is "b"'),
        (b'{"a": 1, "in": {}}', "in.q must be there"),
        (b'{"a": 1, "by": {"k": 1}}', "by['k'] must be boolean, and is 1"),
        (b'{"a": 1}', "it does not fit the schema"),
    ],
)
def test_what_is_wrong_with_a_value_is_said_in_words(value: bytes | None, why: str):
    assert explain_json(value, SCHEMA).startswith(why)


def varint(number: int) -> bytes:
    found = bytearray()
    while number > 127:
        found.append(number & 127 | 128)
        number >>= 7
    return bytes([*found, number])
