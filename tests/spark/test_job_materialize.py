"""Topics become typed tables: each record once, whoever dies, goes on beside, or does the same at the same time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from jobs.materialize import run as running
from tests.support.materializing import FailsAt, Output, materialize
from tests.support.source_stage import Stage, writing_on

FIELDS = "id BIGINT NOT NULL, name STRING"
BAD_EVERY = 5


class Source:
    """A topic with two partitions of numbered records, of which every fifth is no row."""

    def __init__(self, stage: Stage, topic: str) -> None:
        self._stage = stage
        self._topic = topic
        self.count = 0
        stage.create(topic, 2)

    def write(self, count: int) -> None:
        numbers = range(self.count, self.count + count)
        values = [b"no row" if n % BAD_EVERY == 0 else b'{"id": %d, "name": "n%d"}' % (n, n) for n in numbers]
        records = [
            {"key": b"%d" % n, "value": value, "partition": n % 2} for n, value in zip(numbers, values, strict=True)
        ]
        self._stage.write(self._topic, records)
        self.count += count

    def check(self, output: Output) -> None:
        """Every record is a row or a dead letter, once, with all that it had."""
        rows = output.rows("id", "name", "_key")
        good = [n for n in range(self.count) if n % BAD_EVERY]
        assert sorted(rows) == [(n, f"n{n}", b"%d" % n) for n in good]
        letters = output.letters()
        assert Counter(int(row["key"]) for row in letters) == Counter(
            n for n in range(self.count) if n % BAD_EVERY == 0
        )
        assert {row["value"] for row in letters} == {b"no row"}
        places = sorted([*output.places(), *((int(row["partition"]), int(row["offset"])) for row in letters)])
        assert places == sorted((n % 2, n // 2) for n in range(self.count))


def as_table(spark: SparkSession, stage: Stage, topic: str, tmp_path: Path, *options: object) -> Output:
    return Output(spark, stage, topic, tmp_path / topic, "--format", "json", "--schema", FIELDS, *options)


def once(step: str, do: Callable[[], object]) -> Callable[[str], None]:
    """Done when a run first comes to that step."""
    left = [do]

    def probe(at: str) -> None:
        if at == step and left:
            left.pop()()

    return probe


def test_every_acknowledged_record_is_a_row_or_a_dead_letter_while_others_go_on_writing(
    spark: SparkSession, stage: Stage, tmp_path: Path
):
    source, output = Source(stage, "busy"), as_table(spark, stage, "busy", tmp_path)
    source.write(1)
    with writing_on(lambda _: source.write(3)) as more:
        output.run()
        more()
        assert output.run()["batches"] == 1
    output.run()
    before = output.versions()
    assert output.run() == {}, "there was nothing left"
    assert output.versions() == before
    source.check(output)
    (letter, *_) = output.letters()
    assert (letter["group"], letter["attempts"]) == ("materialize-busy", "1")
    assert letter["reason"].startswith("it is not JSON: ")
    assert stage.client.get("/groups/materialize-busy").json()["lag"] == 0


def test_what_was_given_up_stays_a_dead_letter_though_the_next_run_could_read_it(
    spark: SparkSession, stage: Stage, tmp_path: Path
):
    """As when a schema is mended after a run died between its letters and its rows."""
    stage.create("given-up", 1)
    output = as_table(spark, stage, "given-up", tmp_path)
    stage.write("given-up", [{"key": key, "value": b'{"id": %d}' % n} for n, key in enumerate([b"a", None, b"b"])])
    code, _, said = output.try_run("--merge-by-key", probe=FailsAt("materialize.lettered"))
    assert code == 1, said
    stage.write("given-up", [{"key": None, "value": b'{"id": 3}'}])
    assert output.run() == {"batches": 1, "rows": 3, "dead_letters": 1, "overtaken": 0}
    assert output.rows("id", "_offset") == [(0, 0), (2, 2), (3, 3)]
    assert [letter["offset"] for letter in output.letters()] == ["1"]


def test_of_two_runs_one_stores_each_batch_and_the_other_goes_on_behind_it(
    spark: SparkSession, stage: Stage, tmp_path: Path
):
    """The second run is a whole one, in the middle of a step of the first."""
    source, output = Source(stage, "rivals"), as_table(spark, stage, "rivals", tmp_path)
    others: list[dict[str, Any]] = []

    def beside(step: str, *more: object, dies: bool = False) -> Any:
        left = [1]

        def probe(at: str) -> None:
            if at == f"materialize.{step}" and left:
                left.clear()
                source.write(9)
                end = FailsAt("materialize.committed") if dies else (lambda _: None)
                code, summary, said = output.try_run(*more, probe=end)
                assert code == int(dies), said
                others.append(summary["topics"]["rivals"])

        return probe

    source.write(13)
    output.run(probe=beside("shaped"))
    source.check(output)
    source.write(20)
    counts = output.run(probe=beside("lettered", "--max-offsets", 6, dies=True))
    source.check(output)
    assert counts["overtaken"] == 1
    assert all(each["batches"] for each in others)


def test_columns_come_only_where_they_are_asked_for_and_a_table_says_what_its_fields_are(
    spark: SparkSession, stage: Stage, tmp_path: Path
):
    stage.create("growing", 1)
    output = Output(spark, stage, "growing", tmp_path / "growing", "--format", "json")
    code, _, said = output.try_run()
    assert (code, "say what its fields are" in said) == (2, True)
    code, _, said = output.try_run("--infer")
    assert (code, "no record yet" in said) == (2, True)
    stage.write("growing", [{"value": b'{"id": 1, "of": {"a": 1}}'}])
    output.run("--infer")
    stage.write("growing", [{"value": b'{"id": 2, "of": {"a": 2, "b": "x"}, "new": true}'}])
    output.run()
    assert output.rows("id", "of") == [(1, (1,)), (2, (2,))]
    wider = ("--schema", "id BIGINT, of STRUCT<a: BIGINT, b: STRING>, new BOOLEAN")
    before = output.versions()
    code, _, said = output.try_run(*wider)
    assert (code, "the table has no 'of.b', 'new': --evolve" in said) == (2, True)
    code, _, said = output.try_run("--schema", "id STRING", "--evolve")
    assert (code, "the table's id is bigint" in said) == (2, True)
    assert output.versions() == before
    stage.write("growing", [{"value": b'{"id": 3, "of": {"a": 3, "b": "y"}, "new": false}'}])
    output.run(*wider, "--evolve")
    assert output.rows("id", "of", "new") == [(1, (1, None), None), (2, (2, None), None), (3, (3, "y"), False)]


def test_a_dry_run_changes_nothing(spark: SparkSession, stage: Stage, tmp_path: Path):
    source, output = Source(stage, "dry"), as_table(spark, stage, "dry", tmp_path)
    source.write(5)
    topics = stage.client.get("/topics").json()
    code, summary, said = output.try_run("--dry-run")
    assert code == 0
    assert f"make table {output.path}: id BIGINT NOT NULL,name STRING,_topic STRING" in said
    assert "partition 0: from 0" in said
    assert summary["topics"]["dry"]["rows"] == 5
    assert not output.path.exists()
    output.run()
    before = output.versions()
    source.write(6)
    code, summary, said = output.try_run("--dry-run", "--evolve", "--schema", f"{FIELDS}, more INT")
    assert (code, summary["topics"]["dry"]["rows"]) == (0, 6)
    assert f"add to table {output.path}: more" in said
    assert "partition 0: from 3 (behind batch 2) to 6" in said
    assert output.versions() == before
    assert stage.client.get("/topics").json() == sorted([*topics, output.dead_topic])


def test_a_table_whose_history_is_gone_is_not_guessed_about(
    spark: SparkSession, stage: Stage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    source, output = Source(stage, "forgotten"), as_table(spark, stage, "forgotten", tmp_path)
    source.write(10)
    output.run()
    table = DeltaTable(str(output.path))
    table.alter.set_table_properties({"somebody": "else"}, raise_if_not_exists=False)
    table.create_checkpoint()
    for version in output.versions()[:-1]:
        (output.path / "_delta_log" / f"{version:020}.json").unlink()
        (output.path / "_delta_log" / f".{version:020}.json.crc").unlink(missing_ok=True)
    source.write(10)
    letters = len(output.letters())
    code, _, said = output.try_run()
    assert (code, "say --begin" in said) == (2, True)
    assert len(output.letters()) == letters, "it is noticed before anything is stored"
    output.run("--begin", "table")
    source.check(output)
    before = output.versions()
    monkeypatch.setattr(running, "_OLD_MS", -1_000_000)
    assert output.run() == {}
    assert len(output.versions()) == len(before) + 1, "a mark that grows old is said again"
    source.write(5)
    output.run()
    source.check(output)


def test_dead_letters_that_are_too_large_come_without_what_they_hold(spark: SparkSession, stage: Stage, tmp_path: Path):
    stage.create("large", 2)
    output = as_table(spark, stage, "large", tmp_path)
    stage.create(output.dead_topic, 1, max_message_bytes=2000)
    stage.write("large", [{"key": b"%d" % n, "value": b"x" * (3000 if n % 2 else 10)} for n in range(9)])
    assert output.run()["dead_letters"] == 9
    letters = {(row["partition"], row["offset"]): row for row in output.letters()}
    assert len(letters) == 9
    cut = [row for row in letters.values() if row.get("left_out")]
    assert len(cut) == 4
    assert all(row["key"] is row["value"] is None for row in cut)


def test_a_topic_that_was_made_again_is_another_one(spark: SparkSession, stage: Stage, tmp_path: Path):
    source, output = Source(stage, "again"), as_table(spark, stage, "again", tmp_path)
    source.write(4)
    output.run()
    stage.client.delete("/topics/again").raise_for_status()
    Source(stage, "again").write(9)
    before = output.versions()
    code, _, said = output.try_run()
    assert (code, "follows another topic" in said) == (2, True)
    assert output.versions() == before


def test_a_topic_that_is_made_again_while_a_run_reads_it_ends_the_run(
    spark: SparkSession, stage: Stage, tmp_path: Path
):
    source, output = Source(stage, "anew"), as_table(spark, stage, "anew", tmp_path)
    source.write(8)

    def make_again() -> None:
        stage.client.delete("/topics/anew").raise_for_status()
        Source(stage, "anew").write(40)

    code, summary, said = output.try_run("--max-offsets", 4, probe=once("materialize.stored", make_again))
    assert (code, "follows another topic" in said) == (1, True), said
    assert summary["topics"]["anew"]["batches"] == 1
    assert len(output.places()) + len(output.letters()) == 4, "nothing of the other one is in it"


def test_a_topic_that_is_deleted_while_a_run_reads_it_is_said_to_be_gone(
    spark: SparkSession, stage: Stage, tmp_path: Path
):
    source, output = Source(stage, "leaves"), as_table(spark, stage, "leaves", tmp_path)
    source.write(8)
    delete = once("materialize.stored", lambda: stage.client.delete("/topics/leaves").raise_for_status())
    for_ever = [option for option in output.options if option != "--available-now"]
    code, _, said = materialize(*for_ever, "--max-offsets", 4, "--skip-lost", probe=delete)
    assert (code, f"there is no topic 'leaves' in {stage.url}" in said) == (1, True), said


def test_partitions_that_come_while_a_query_begins_are_read_too(spark: SparkSession, stage: Stage, tmp_path: Path):
    source, output = Source(stage, "grows"), as_table(spark, stage, "grows", tmp_path)
    source.write(8)

    def grow() -> None:
        (cluster,) = stage.client.get("/v3/clusters").json()["data"]
        path = f"/v3/clusters/{cluster['cluster_id']}/topics/grows"
        stage.client.patch(path, json={"partitions_count": 3}).raise_for_status()
        stage.write("grows", [{"key": b"8", "value": b'{"id": 8, "name": "n8"}', "partition": 2}])

    assert output.run(probe=once("materialize.described", grow))["rows"] == 7
    assert (2, 0) in output.places()


def test_what_cannot_be_is_refused_before_anything_is_read(tmp_path: Path):
    table = ["--topic", "t", "--table", tmp_path / "t", "--server", "http://127.0.0.1:9"]
    for options, why in [
        (["--topic", "u", "--format", "raw"], "one topic"),
        (["--format", "avro"], "needs --schema"),
        (["--format", "raw", "--schema", "a INT"], "has no --schema"),
        (["--format", "json", "--message", "x"], "needs --message"),
        (["--format", "protobuf", "--schema", "x"], "needs --message"),
        (["--format", "json", "--infer", "--schema", "a INT"], "--infer is for"),
        (["--format", "raw", "--merge-by", "a"], "no fields to merge by"),
        (["--format", "raw", "--dead-letters", "é"], "'é' is not a valid name"),
        (["--format", "raw", "--dead-letters", "t"], "would read what it writes"),
        (["--format", "raw", "--data", tmp_path], "is inside of the root"),
    ]:
        code, _, said = materialize(*table, *options)
        assert (code, why in said) == (2, True), said
