"""What becomes of records on their way into a typed table, as functions from frame to frame."""

from __future__ import annotations

import datetime as dt
import io
import json
from typing import Any

import fastavro
import pytest
from chispa import assert_df_equality
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as Spark's own pages have it
from pyspark.sql.types import StructType

from jobs.materialize.columns import RAW, fields_of
from jobs.materialize.decoding import Wire, open_decoder
from jobs.materialize.latest_per_key import is_newer, newest_rows
from jobs.materialize.parsing import How, bad_rows, good_rows, parsed
from jobs.materialize.schemas import as_sample, infer, parse_schema
from jobs.source.columns import spark_schema
from tests.support.descriptors import descriptor_set

AT = dt.datetime(2026, 1, 1, 12, tzinfo=dt.UTC)
SOURCE = spark_schema(headers=True)


def records(spark: SparkSession, *values: bytes | None, key: bytes | None = b"k") -> DataFrame:
    rows = [(key, value, "t", 0, number, AT, 0, [("h", b"1")]) for number, value in enumerate(values)]
    return spark.createDataFrame(rows, SOURCE).coalesce(1)


def as_json_fields(ddl: str, table: str = "", by: tuple[str, ...] = ()) -> How:
    fields = StructType.fromDDL(ddl)
    return How("json", fields, StructType.fromDDL(table) if table else fields, by=by)


def reasons(frame: DataFrame) -> dict[int, str]:
    return {row["offset"]: row["reason"] for row in bad_rows(frame).collect()}


def test_json_that_fits_becomes_rows_that_say_where_they_came_from(spark: SparkSession):
    how = as_json_fields("id BIGINT, tags ARRAY<STRING>, at TIMESTAMP")
    frame = records(spark, b'{"id": 1, "tags": ["x"], "at": "2026-01-01T00:00:00Z"}', b' {"more": {"a": 1}} ')
    expected = spark.createDataFrame(
        [
            (1, ["x"], dt.datetime(2026, 1, 1, tzinfo=dt.UTC), "t", 0, 0, AT, b"k", False),
            (None, None, None, "t", 0, 1, AT, b"k", False),
        ],
        "id BIGINT, tags ARRAY<STRING>, at TIMESTAMP, _topic STRING, _partition INT, _offset BIGINT, "
        "_timestamp TIMESTAMP, _key BINARY, gone BOOLEAN",
    )
    assert_df_equality(good_rows(parsed(frame, how), how), expected, ignore_nullable=True)


BAD = [
    b"", b"null", b"nope", b"[1]", b'[{"id": 1}]', b'"id"', b'{"id": 1} x', b'{"id": 1}{"id": 2}', b'{"id": 1',
    b'{"id": 1},{"id": 2}', b'{"id": 1},"x":{}', b'{"id": 1}] {}', b"{'id': 1}", b'{"id": "1x"}', b'{"id": 1.5}',
    b'{"id": 9223372036854775808}', b'{"id": null}', b"{}", b'{"ID": 1}', b'{"id": 1, "ratio": NaN}',
    b'{"id": 1, "in": {}}', b'{"id": 1, "in": {"a": null}}', b'{"id": 1, "in": {"a": "x"}}',
    b'{"id": 1, "of": ["x"]}', b'{"id": 1, "name": "\xff"}', None,
]  # fmt: skip


def test_json_that_does_not_fit_is_bad_to_the_last_one_and_keeps_no_other_back(spark: SparkSession):
    """Spark by itself would take what is behind a value, or a value of an array, for nothing."""
    how = as_json_fields(
        "id BIGINT NOT NULL, ratio DOUBLE, in STRUCT<a: INT NOT NULL>, of ARRAY<STRUCT<a: INT>>, name STRING"
    )
    good = [b'{"id": 1, "of": [{}, null], "in": null, "name": {"any": "text"}}', b'{"id": 1, "in": {"a": 2}}']
    frame = parsed(records(spark, *BAD, *good), how).cache()
    assert sorted(reasons(frame)) == list(range(len(BAD)))
    assert [row["_offset"] for row in good_rows(frame, how).collect()] == [len(BAD), len(BAD) + 1]
    kept = bad_rows(frame).collect()
    assert [None if row["value"] is None else bytes(row["value"]) for row in kept] == BAD
    assert all(row["headers"][0]["key"] == "h" for row in kept)


def test_rows_have_the_types_and_the_further_fields_of_the_table(spark: SparkSession):
    how = as_json_fields(
        "ID BIGINT, in STRUCT<a: INT>, of ARRAY<STRUCT<a: INT>>, by MAP<STRING, STRUCT<a: INT>>",
        "id BIGINT, in STRUCT<z: STRING, a: INT>, of ARRAY<STRUCT<a: INT, z: STRING>>, "
        "by MAP<STRING, STRUCT<a: INT, z: INT>>",
    )
    value = b'{"ID": 1, "in": {"a": 2}, "of": [{"a": 3}], "by": {"k": {"a": 4}}}'
    rows = good_rows(parsed(records(spark, value, b"{}"), how), how)
    assert fields_of(rows.drop("gone").schema).simpleString() == how.columns.simpleString()
    full, empty = rows.collect()
    assert (full["id"], full["in"], full["of"], full["by"]) == (1, (None, 2), [(3, None)], {"k": (4, None)})
    assert empty["in"] is empty["of"] is empty["by"] is None


def test_avro_becomes_rows_and_says_why_where_it_does_not(spark: SparkSession):
    schema = {
        "type": "record",
        "name": "E",
        "fields": [
            {"name": "id", "type": "long"},
            {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}},
            {"name": "note", "type": ["null", "string"]},
            {"name": "of", "type": {"type": "map", "values": "int"}},
        ],
    }
    wire = Wire("avro", json.dumps(schema).encode())
    fields = open_decoder(wire).fields
    how = How("avro", fields, fields, wire)
    at = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
    good = avro(schema, {"id": 1, "at": at, "note": None, "of": {"a": 2}})
    frame = parsed(records(spark, good, good + b"x", None, b"\x80"), how).cache()
    (row,) = good_rows(frame, how).withColumn("at", F.unix_seconds("at")).collect()
    assert (row["id"], row["at"], row["note"], row["of"]) == (1, int(at.timestamp()), None, {"a": 2})
    found = reasons(frame)
    assert sorted(found) == [1, 2, 3]
    assert "1 bytes are left over" in found[1]
    assert found[2] == "the value is null"


def test_protobuf_becomes_rows(spark: SparkSession):
    wire = Wire("protobuf", descriptor_set(), "shop.Order")
    fields = open_decoder(wire).fields
    how = How("protobuf", fields, fields, wire)
    frame = parsed(records(spark, b"\x08\x07\x12\x03tea", b"\xff"), how).cache()
    (row,) = good_rows(frame, how).collect()
    assert (row["id"], row["name"]) == (7, "tea")
    assert list(reasons(frame)) == [1]


def test_raw_rows_are_the_columns_of_the_source(spark: SparkSession):
    how = How("raw", RAW, RAW)
    frame = records(spark, b"\xff", None)
    expected = frame.drop("timestampType")
    assert_df_equality(
        good_rows(parsed(frame, how), how).drop("gone"), expected, ignore_nullable=True, ignore_column_order=True
    )


def test_records_without_what_they_are_merged_by_are_bad(spark: SparkSession):
    by_key = as_json_fields("id BIGINT", by=("_key",))
    frame = parsed(records(spark, b'{"id": 1}', None), by_key)
    assert [(row["_offset"], row["gone"]) for row in good_rows(frame, by_key).collect()] == [(0, False), (1, True)]
    frame = parsed(records(spark, b'{"id": 1}', None, key=None), by_key)
    assert [reason.partition(",")[0] for reason in reasons(frame).values()] == ["the key is null"] * 2
    by_field = as_json_fields("id BIGINT", by=("id",))
    found = reasons(parsed(records(spark, b'{"id": 1}', b"{}", None), by_field))
    assert found == {1: "id is null, and records are merged by it", 2: ""}


def test_the_newest_row_of_a_key_is_that_of_the_highest_offset_or_of_the_latest_time(spark: SparkSession):
    early, late = AT, AT + dt.timedelta(seconds=1)
    rows = spark.createDataFrame(
        [
            ("a", late, "t", 0, 1, "old"),
            ("a", early, "t", 0, 2, "new"),  # a producer's clock went back
            ("b", early, "t", 0, 9, "old"),
            ("b", late, "t", 1, 1, "new"),
            ("c", early, "t", 0, 9, "old"),
            ("c", early, "t", 1, 1, "new"),
        ],
        "k STRING, _timestamp TIMESTAMP, _topic STRING, _partition INT, _offset BIGINT, v STRING",
    )
    place = ("_timestamp", "_topic", "_partition", "_offset")
    assert {row["k"]: row["v"] for row in newest_rows(rows, ["k"], place).collect()} == dict.fromkeys("abc", "new")
    pairs = rows.alias("new").join(rows.alias("old"), "k").where(is_newer("new", "old", place))
    assert sorted((row[0], row[5], row[10]) for row in pairs.collect()) == [(k, "new", "old") for k in "abc"]


def test_a_schema_is_inferred_from_what_records_show(spark: SparkSession):
    sample = as_sample(
        [b'{"a": 1, "e": {}, "n": null}', b'{"a": 2.5, "b": {"c": [1], "e": {}}}', b"nope", b"[1]", None]
    )
    assert infer(spark, sample).simpleString() == "struct<a:double,b:struct<c:array<bigint>>,n:string>"
    assert infer(spark, []) == StructType()


@pytest.mark.parametrize("way", ["ddl", "json", "file"])
def test_a_schema_is_given_as_text_or_in_a_file(spark: SparkSession, tmp_path: Any, way: str):
    ddl = "id BIGINT NOT NULL, name STRING"
    fields = StructType.fromDDL(ddl)
    text = {"ddl": ddl, "json": fields.json(), "file": str(tmp_path / "schema")}[way]
    (tmp_path / "schema").write_text(ddl)
    assert parse_schema(text) == fields


def avro(schema: Any, record: Any) -> bytes:
    body = io.BytesIO()
    fastavro.schemaless_writer(body, fastavro.parse_schema(schema), record)
    return body.getvalue()
