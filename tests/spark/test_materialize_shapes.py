"""Whole runs over values of other formats than JSON: what was not set, what is no record, what comes with time."""

from __future__ import annotations

import datetime as dt
import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.support.descriptors import descriptor_set, message_class
from tests.support.materializing import Output
from tests.support.source_stage import Stage

AT = dt.datetime(2026, 1, 1, 12, 0, 0, 123456, tzinfo=dt.UTC)
NEWER = descriptor_set(newer=True)
ORDER, NEWER_ORDER = message_class(descriptor_set(), "shop.Order"), message_class(NEWER, "shop.Order")


@pytest.fixture
def schemas(tmp_path: Path) -> Path:
    """Files of descriptors, and some that are none."""
    folder = tmp_path / "schemas"
    folder.mkdir()
    (folder / "shop").write_bytes(descriptor_set())
    (folder / "newer").write_bytes(NEWER)
    (folder / "text").write_text("message Order {}")
    return folder


def as_orders(spark: SparkSession, stage: Stage, topic: str, path: Path, schema: Path, *options: object) -> Output:
    words = ("--format", "protobuf", "--schema", schema, "--message", "shop.Order", *options)
    return Output(spark, stage, topic, path, *words)


def order(of: Any = ORDER, /, **fields: Any) -> bytes:
    return of(**fields).SerializeToString()


def test_messages_become_rows_what_is_none_says_why_and_fields_come_with_newer_descriptors(
    spark: SparkSession, stage: Stage, schemas: Path, tmp_path: Path
):
    stage.create("orders", 1)
    full = {"id": -7, "name": "tea", "large": 2**64 - 1, "kind": "GIFT", "note": "", "counts": {"ab": 5}}
    lines = [{"what": "cup"}, {}]
    good = [
        order(**full, lines=lines, at=AT),
        b"",
        order(NEWER_ORDER, id=1, kind="SAMPLE", paid=True, lines=[{"what": "pot", "count": 3}], gift={"what": "box"}),
    ]
    not_utf8 = order(name="t").replace(b"t", b"\xff")
    bad = [b"\xff", order(name="tea")[:-1], not_utf8, order(at={"seconds": 1 << 40}), None]
    stage.write("orders", [{"value": value} for value in (*good, *bad)])
    output = as_orders(spark, stage, "orders", tmp_path / "orders", schemas / "shop")
    assert output.run() == {"batches": 1, "rows": 3, "dead_letters": 5, "overtaken": 0}
    names = ("_offset", "id", "name", "large", "kind", "lines", "note", "counts")
    assert output.rows(*names) == [
        (0, -7, "tea", Decimal(2**64 - 1), "GIFT", [("cup",), ("",)], "", {"ab": 5}),
        (1, 0, "", Decimal(0), "PLAIN", [], None, {}),
        (2, 1, "", Decimal(0), "2", [("pot",)], None, {}),
    ]
    assert output.rows("at") == [(None,), (None,), (AT.astimezone().replace(tzinfo=None),)]
    letters = output.letters()
    assert [letter["value"] for letter in letters] == bad
    *reasons, null = [letter["reason"] for letter in letters]
    assert null == "the value is null"
    assert all(reason.startswith("it is no message of the type: ") for reason in reasons)
    newer = ("--schema", schemas / "newer")
    code, _, said = output.try_run(*newer)
    assert (code, "the table has no 'lines.element.count', 'paid', 'gift': --evolve" in said) == (2, True), said
    # Rows that are there have nothing in the new fields, and messages of before what a field has by default.
    values = [good[2], order(id=3, lines=[{"what": "can"}])]
    stage.write("orders", [{"value": value} for value in values])
    assert output.run(*newer, "--evolve")["rows"] == 2
    assert output.rows("_offset", "kind", "lines", "paid", "gift") == [
        (0, "GIFT", [("cup", None), ("", None)], None, None),
        (1, "PLAIN", [], None, None),
        (2, "2", [("pot", None)], None, None),
        (8, "SAMPLE", [("pot", 3)], True, ("box", 0)),
        (9, "PLAIN", [("can", 0)], False, None),
    ]


def test_messages_follow_a_compacted_topic_and_are_merged_by_what_is_set(
    spark: SparkSession, stage: Stage, schemas: Path, tmp_path: Path
):
    """A field that does not know whether it was set has its default, which is as good as any other value."""
    stage.create("state", 1)
    values = {b"a": order(id=1, note="x"), b"b": order(note="x"), b"c": order(id=1), b"d": order(note="x", name="new")}
    stage.write("state", [{"key": key, "value": value} for key, value in values.items()])
    stage.write("state", [{"key": b"a", "value": None}, {"key": b"b", "value": order(id=5)}])
    output = as_orders(spark, stage, "state", tmp_path / "state", schemas / "shop", "--merge-by-key")
    assert output.run()["dead_letters"] == 0
    assert output.rows("_key", "id", "note") == [(b"b", 5, None), (b"c", 1, None), (b"d", 0, "x")]
    output = as_orders(spark, stage, "state", tmp_path / "fields", schemas / "shop", "--merge-by", "id,note")
    assert output.run()["dead_letters"] == 3
    assert output.rows("id", "note", "name") == [(0, "x", "new"), (1, "x", "")]
    null = "note is null, and records are merged by it"
    assert [letter["reason"] for letter in output.letters()] == [null, "the value is null", null]


def test_schemas_that_are_none_are_refused_before_anything_is_stored(
    spark: SparkSession, stage: Stage, schemas: Path, tmp_path: Path
):
    stage.create("refused", 1)
    stage.write("refused", [{"value": b"no row"}])
    table, gone = tmp_path / "refused", schemas / "gone"
    unread = f"--schema {gone} cannot be read: No such file or directory"
    for options, why in [
        (["protobuf", "--schema", gone, "--message", "shop.Order"], unread),
        (["protobuf", "--schema", schemas, "--message", "shop.Order"], "cannot be read: Is a directory"),
        (["protobuf", "--schema", schemas / "text", "--message", "shop.Order"], "--schema is not what `protoc"),
        (["protobuf", "--schema", schemas / "shop", "--message", "Order"], "there is no 'Order' in --schema"),
        (["protobuf", "--schema", schemas / "shop", "--message", "shop.Kind"], "there is no 'shop.Kind' in --schema"),
        (["protobuf", "--schema", schemas / "shop", "--message", "shop.Order", "--merge-by", "counts"], "nothing is"),
        (["avro", "--schema", gone], unread),
        (["json", "--schema", gone], "--schema is neither a file that can be read nor a schema"),
        (["json", "--schema", schemas / "text"], "--schema is no schema"),
    ]:
        output = Output(spark, stage, "refused", table, "--format", *options)
        code, _, said = output.try_run()
        assert (code, why in said) == (2, True), said
        assert not table.exists()
        assert not output.letters()


def test_avro_and_raw_records_become_rows(spark: SparkSession, stage: Stage, tmp_path: Path):
    stage.create("shapes", 1)
    stage.write("shapes", [{"key": b"k", "value": b"\x06", "headers": [("h", b"1")]}, {"key": b"k", "value": None}])
    schema = tmp_path / "shapes.avsc"
    schema.write_text(json.dumps({"type": "record", "name": "R", "fields": [{"name": "id", "type": "long"}]}))
    avro = Output(spark, stage, "shapes", tmp_path / "avro", "--format", "avro", "--schema", schema)
    assert avro.run() == {"batches": 1, "rows": 1, "dead_letters": 1, "overtaken": 0}
    assert avro.rows("id", "_offset") == [(3, 0)]
    raw = Output(spark, stage, "shapes", tmp_path / "raw", "--format", "raw")
    assert raw.run()["rows"] == 2
    assert raw.rows("value", "offset", "headers") == [(None, 1, None), (b"\x06", 0, [("h", b"1")])]
    newest = Output(spark, stage, "shapes", tmp_path / "newest", "--format", "raw", "--merge-by-key")
    newest.run()
    assert newest.rows("key") == []
