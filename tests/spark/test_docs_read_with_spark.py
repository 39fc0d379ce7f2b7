"""What the page about Spark tells a reader to type works, block after block, in one session."""

import re
from pathlib import Path

from pyspark.sql import SparkSession

from tests.architecture.project_files import ROOT
from tests.support.serving import serving
from tests.support.source_stage import Stage

PAGE = (ROOT / "docs" / "how-to" / "read-with-spark.md").read_text(encoding="utf-8")
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def test_the_blocks_of_the_page_run(spark: SparkSession, tmp_path: Path):
    with serving(tmp_path / "root") as server:
        stage = Stage(server, tmp_path / "root")
        stage.create("orders", 2)
        stage.create("totals", 1)
        stage.fill("orders", 10, partitions=2)
        told = {
            "/data/lakelog": stage.path,
            "/data/checkpoints": str(tmp_path),
            "http://127.0.0.1:8082": stage.url,
        }
        names = {"spark": spark}
        for block in BLOCK.findall(PAGE):
            for text, here in told.items():
                block = block.replace(text, here)  # noqa: PLW2901 - a block as it is here
            exec(block, names)
        assert names["orders"].count() == names["recent"].count() == 10
        assert sorted(names["counts"].collect()) == [(0, 5), (1, 5)]
        assert names["query"].lastProgress["sources"][0]["endOffset"] == '{"orders": {"0": 5, "1": 5}}'
        assert sorted(row["key"] for row in stage.read("totals", 0)) == [b"alice", b"bob"]
        assert names["moved"].isStreaming
        stage.close()
