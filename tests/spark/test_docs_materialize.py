"""What the page about materialize tells a reader to type works, block after block."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.architecture.project_files import ROOT
from tests.support.materializing import materialize
from tests.support.serving import serving
from tests.support.source_stage import Stage

PAGE = (ROOT / "docs" / "how-to" / "materialize.md").read_text(encoding="utf-8")
BLOCK = re.compile(r"^<!-- runs in Spark -->\n```(sh|python)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LINES = re.compile(r"'Content-Type: application/x-ndjson' -d '(.*?)'\n", re.DOTALL)
JOB = "python -m jobs.materialize "


def test_the_blocks_of_the_page_run(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    with serving(tmp_path / "root") as server:
        stage = Stage(server, tmp_path / "root")
        stage.create("orders", 2)
        stage.create("customers", 1, cleanup_policy="compact")
        (lines,) = LINES.findall(PAGE)
        headers = {"Content-Type": "application/x-ndjson"}
        stage.client.post("/topics/orders?key=/id", content=lines, headers=headers).raise_for_status()
        stage.write("customers", [{"key": b"a", "value": json.dumps({"name": "Ada"}).encode()}])
        names = {"spark": spark}
        for language, block in BLOCK.findall(PAGE):
            there = block.replace("http://127.0.0.1:8082", stage.url).replace("tables/", f"{tmp_path}/tables/")
            if language == "python":
                exec(there, names)
                continue
            for command in there.replace("\\\n", " ").strip().splitlines():
                assert command.startswith(JOB)
                # A merge is like the others, and tried elsewhere: only its words are looked at.
                words = [*shlex.split(command.removeprefix(JOB)), *(["--dry-run"] if "--merge" in command else [])]
                code, _, said = materialize(*words)
                assert code == 0, said
        assert sorted(names["orders"].select("id", "what", "price").collect()) == [(1, "tea", None), (2, "cups", 4.5)]
        (topic,) = re.findall(r"curl localhost:8082/topics/(\S+\.dlq)/records", PAGE)
        letters = stage.client.get(f"/topics/{topic}/records").text.splitlines()
        assert [json.loads(line)["value"] for line in letters] == [{"id": "three"}]
        stage.close()
