"""Tables of one row for each key, or for the same fields: the newest, whoever is late, dies or does the same beside."""

from __future__ import annotations

import datetime as dt
import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.support.materializing import FailsAt, Output, materialize
from tests.support.source_stage import Stage

START_MS = 1_700_000_000_000
NO_ROW_EVERY = 11


def as_table(spark: SparkSession, stage: Stage, topic: str, path: Path, fields: str, *options: object) -> Output:
    return Output(spark, stage, topic, path, "--format", "json", "--schema", fields, *options)


def row(partition: int, at_ms: int, **fields: Any) -> dict[str, Any]:
    return {"partition": partition, "timestamp": START_MS + at_ms, "value": json.dumps(fields).encode()}


class Pairs:
    """A topic with numbers of six pairs of fields: twelve of them, two of each pair, in one partition by turns.

    The last twelve are of a time before that of the twelve before them, and so in no row. Within a field of a pair one
    is always null, which is the same as another null.
    """

    FIELDS = "region STRING, of STRUCT<id: BIGINT, no: INT>, n BIGINT"
    COLUMNS = ("region", "of.id", "n")

    def __init__(self, stage: Stage, topic: str) -> None:
        self._stage = stage
        self._topic = topic
        self.count = 0
        stage.create(topic, 2)

    def write(self, count: int) -> None:
        numbers = range(self.count, self.count + count)
        self._stage.write(self._topic, [self._record(n) for n in numbers])
        self.count += count

    def _record(self, n: int) -> dict[str, Any]:
        region, number = _pair(n)
        fields = {"of": {"id": number}, "n": n}
        return row(_place(n)[0], _at_ms(n), **fields if n % NO_ROW_EVERY == 0 else fields | {"region": region})

    @property
    def newest(self) -> list[tuple[str, int, int]]:
        found: dict[tuple[str, int], int] = {}
        for n in sorted((n for n in range(self.count) if n % NO_ROW_EVERY), key=_at_ms):
            found[_pair(n)] = n
        return sorted((*pair, n) for pair, n in found.items())

    def check(self, output: Output) -> None:
        assert output.rows(*self.COLUMNS) == self.newest
        letters = output.letters()
        assert [(int(each["partition"]), int(each["offset"])) for each in letters] == sorted(
            map(_place, range(0, self.count, NO_ROW_EVERY))
        )
        assert {each["reason"] for each in letters} == {"region is null, and records are merged by it"}


def _pair(n: int) -> tuple[str, int]:
    of = n // 2 % 6
    return ("eu", "us")[of % 2], of % 3


def _place(n: int) -> tuple[int, int]:
    turn = n // 12
    return 1 - turn % 2, n - (turn + 1) // 2 * 12


def _at_ms(n: int) -> int:
    """Of no two the same, and in the order of each partition."""
    if _place(n)[0] == 0:
        return 2 * n
    return 2 * n - (25 if n >= 48 else 1)


def _time(n: int) -> dt.datetime:
    return dt.datetime.fromtimestamp((START_MS + _at_ms(n)) / 1000, dt.UTC)


def test_a_table_follows_a_compacted_topic(spark: SparkSession, stage: Stage, tmp_path: Path):
    stage.create("state", 2, cleanup_policy="compact")
    output = as_table(
        spark, stage, "state", tmp_path / "state", "id BIGINT NOT NULL", "--merge-by-key", "--max-offsets", 20
    )
    latest: dict[bytes, int] = {}

    def write(numbers: range) -> None:
        records: list[dict[str, Any]] = []
        for n in numbers:
            key = b"k%d" % (n * 7 % 10)
            gone = n % 6 == 0
            records.append({"key": key, "value": None if gone else b'{"id": %d}' % n, "partition": n * 7 % 10 % 2})
            latest.pop(key, None)
            if not gone:
                latest[key] = n
        stage.write("state", records)

    write(range(1, 30))
    output.run()
    assert dict(output.rows("_key", "id")) == latest
    write(range(30, 47))
    assert output.try_run(probe=FailsAt("materialize.stored"))[0] == 1
    write(range(47, 60))
    output.run()
    assert dict(output.rows("_key", "id")) == latest


def test_a_row_gives_way_to_a_higher_offset_of_its_partition_and_a_later_time_of_another(
    spark: SparkSession, stage: Stage, tmp_path: Path
):
    stage.create("rules", 2)
    output = as_table(spark, stage, "rules", tmp_path / "rules", "id BIGINT, n BIGINT", "--merge-by", "ID")
    stage.write("rules", [row(0, 50, id=1, n=10), row(0, 40, id=1, n=11), row(1, 30, id=2, n=12), row(0, 60, id=3)])
    stage.write("rules", [{"partition": 1, "value": None}, row(1, 30, id=None, n=13), row(1, 30, n=14)])
    assert output.run() == {"batches": 1, "rows": 4, "dead_letters": 3, "overtaken": 0}
    assert output.rows("id", "n") == [(1, 11), (2, 12), (3, None)]
    null = "id is null, and records are merged by it"
    assert [letter["reason"] for letter in output.letters()] == ["the value is null", null, null]
    stage.write("rules", [row(1, 39, id=1, n=20), row(0, 29, id=2, n=21), row(1, 61, id=3, n=22), row(0, 40, id=4)])
    stage.write("rules", [row(1, 40, id=4, n=23), row(0, 30, id=2, n=24)])
    output.run()
    # Of id 2 the time is the same as that of the row, and of id 4 in the batch: the higher partition counts.
    assert output.rows("id", "n") == [(1, 11), (2, 12), (3, 22), (4, 23)]


def test_rows_of_two_fields_are_the_newest_whoever_dies_and_does_the_same_at_the_same_time(
    spark: SparkSession, stage: Stage, tmp_path: Path
):
    pairs = Pairs(stage, "pairs")
    by = ("--merge-by", "region, of", "--max-offsets", 40)
    output = as_table(spark, stage, "pairs", tmp_path / "pairs", Pairs.FIELDS, *by)
    pairs.write(45)
    assert output.try_run(probe=FailsAt("materialize.stored"))[0] == 1
    pairs.write(8)
    assert output.try_run(probe=FailsAt("materialize.lettered"))[0] == 1
    others: list[dict[str, Any]] = []
    left = [1]

    def beside(step: str) -> None:
        if step == "materialize.lettered" and left:
            left.clear()
            pairs.write(7)
            others.append(output.run())

    counts = output.run(probe=beside)
    assert (counts["overtaken"], counts["batches"], others[0]["batches"] > 0) == (1, 0, True)
    pairs.check(output)
    assert all(n < 48 <= pairs.count for _, _, n in pairs.newest)


def test_records_that_are_read_again_take_no_row_back(spark: SparkSession, stage: Stage, tmp_path: Path):
    """As where a table is a copy, which has the rows and not how far they came. Of the first batch no row is newer."""
    pairs = Pairs(stage, "copied")
    pairs.write(40)
    rows = [(region, (number, None), n, "copied", *_place(n), _time(n), None) for region, number, n in pairs.newest]
    columns = f"{Pairs.FIELDS}, _topic STRING, _partition INT, _offset BIGINT, _timestamp TIMESTAMP, _key BINARY"
    spark.createDataFrame(rows, columns).write.format("delta").save(str(tmp_path / "copied"))
    output = as_table(spark, stage, "copied", tmp_path / "copied", Pairs.FIELDS, "--merge-by", "region,of")
    assert output.try_run("--max-offsets", 20, probe=FailsAt("materialize.stored"))[0] == 1
    assert output.rows(*Pairs.COLUMNS) == pairs.newest


def test_rows_of_no_record_give_way_and_of_two_topics_in_one_table_the_later_time_counts(
    spark: SparkSession, stage: Stage, tmp_path: Path
):
    """A table that somebody had before, with a column of his own, of which some rows are in the topics, too."""
    table, fields = tmp_path / "all", "id BIGINT, what STRING"
    old = [(number, "old", "his") for number in (1, 2, 3, 4)]
    spark.createDataFrame(old, f"{fields}, note STRING").write.format("delta").save(str(table))
    for topic, records in {
        "east": [row(0, 50, id=3, what="east"), *[row(0, 50, id=1, what="east")] * 2],
        "west": [
            row(0, 60, id=1, what="west"),
            row(0, 40, id=3, what="west"),
            row(0, 0, id=4, what="west"),
            row(0, 0, id=5),
        ],
    }.items():
        stage.create(topic, 1)
        stage.write(topic, records)
        output = as_table(spark, stage, topic, table, fields, "--merge-by", "id", "--evolve")
        assert output.run()["rows"] == len(records)
    found = [(1, "west", "his"), (2, "old", "his"), (3, "east", "his"), (4, "west", "his"), (5, None, None)]
    assert output.rows("id", "what", "note") == found


def test_what_rows_cannot_be_merged_by_is_refused_before_anything_is_stored(
    spark: SparkSession, stage: Stage, tmp_path: Path
):
    stage.create("refused", 1)
    stage.write("refused", [row(0, 0, id=1), {"value": b"no row"}])
    fields = "id BIGINT, of STRUCT<a: INT, m: MAP<STRING, INT>>, m ARRAY<MAP<STRING, INT>>"
    output = as_table(spark, stage, "refused", tmp_path / "refused", fields)
    for by, why in [
        ("nope", "there is no field 'nope'"),
        ("id,_offset", "there is no field '_offset'"),
        ("of.a", "'of.a' is within a field, and rows are merged by whole ones"),
        ("m", "m is array<map<string,int>>, which nothing is equal to"),
        ("id,of", "of is struct<a:int,m:map<string,int>>, which nothing is equal to"),
        ("id,ID", "'ID' is named twice"),
        ("", "a field has no name in ''"),
        ("id,", "a field has no name in 'id,'"),
    ]:
        code, _, said = output.try_run("--merge-by", by)
        assert (code, f"--merge-by: {why}" in said) == (2, True), said
    with pytest.raises(SystemExit) as ended:
        materialize(*output.options, "--merge-by", "id", "--merge-by-key")
    assert ended.value.code == 2
    assert not output.path.exists()
    assert not output.letters()
