"""What the page about consuming with Spark tells a reader to type works, block after block."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from jobs.consume import job as consume
from tests.architecture.project_files import ROOT
from tests.support.serving import serving
from tests.support.source_stage import Stage

PAGE = (ROOT / "docs" / "how-to" / "consume-with-spark.md").read_text(encoding="utf-8")
EXAMPLES = ("word_count.py", "read_orders.py")
BLOCK = re.compile(r"^```(sh|python)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LINES = re.compile(r"topics/(\w+)' -H 'Content-Type: application/x-ndjson' -d '(.*?)'\n", re.DOTALL)
JOB = "python -m jobs.consume "


def test_the_words_are_counted_as_the_page_says(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys
):
    blocks = BLOCK.findall(PAGE)
    shown = [block for language, block in blocks if language == "python"]
    for name, block in zip(EXAMPLES, shown, strict=False):
        assert (ROOT / "examples" / name).read_text(encoding="utf-8").endswith(block)
    check_the_function_of_values(*shown[len(EXAMPLES) :])
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(ROOT / "examples")
    with serving(tmp_path / "root") as server:
        stage = Stage(server, tmp_path / "root")
        stage.create("lines", 2)
        stage.create("counts", 1, cleanup_policy="compact")
        for topic in ("copies", "orders", "items"):
            stage.create(topic, 2)
        headers = {"Content-Type": "application/x-ndjson"}
        said: list[str] = []

        def run(which: str) -> None:
            for topic, lines in LINES.findall(PAGE):
                stage.client.post(f"/topics/{topic}", content=lines, headers=headers).raise_for_status()
            for language, block in blocks:
                there = block.replace("http://127.0.0.1:8082", stage.url).replace("words-state", f"{tmp_path}/state")
                for command in there.replace("\\\n", " ").splitlines() if language == "sh" else ():
                    if command.startswith(JOB) and which in command:
                        capsys.readouterr()
                        code = consume.main(shlex.split(command.removeprefix(JOB)))
                        out, err = capsys.readouterr()
                        assert code == 0, err
                        said.extend(out.splitlines())

        run("")
        found = [json.loads(line) for line in said if line.startswith('{"value"')]
        assert sorted(row["value"] for row in found) == ['"Tea for two"', '"and two for tea"']
        assert counts(stage) == {"tea": 2, "for": 2, "two": 2, "and": 1}
        run("--group words ")
        assert counts(stage) == {"tea": 4, "for": 4, "two": 4, "and": 2}
        assert len(values(stage, "copies")) == 2
        assert values(stage, "items") == [b"tea"]
        assert values(stage, "shop.dlq") == [b'{"itme": "cups"}']
        stage.close()


def check_the_function_of_values(block: str) -> None:
    """It stands for itself: what it checks is the reader's."""
    names: dict[str, Any] = {"check_order": json.loads}
    exec(block, names)
    assert names["why_not"].func(bytearray(b"1")) is None
    assert "Expecting value" in names["why_not"].func(bytearray(b"x"))


def values(stage: Stage, topic: str) -> list[bytes]:
    return [row["value"] for partition in (0, 1) for row in stage.read(topic, partition)]


def counts(stage: Stage) -> dict[str, int]:
    """The last of each key."""
    return {row["key"].decode(): int(row["value"]) for row in stage.read("counts", 0)}
