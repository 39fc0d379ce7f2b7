"""Materialize jobs for tests: who runs them, where they fail, and what is in the table and among the dead letters."""

from __future__ import annotations

import contextlib
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from jobs.materialize.job import main
from tests.support.source_stage import Stage


class Died(Exception):
    """Where a test wanted it."""


class FailsAt:
    """The probe of a run that is cut off at a certain hit of a step."""

    def __init__(self, step: str, hit: int = 1) -> None:
        self._step, self._left = step, hit

    def __call__(self, step: str) -> None:
        if step == self._step:
            self._left -= 1
            if self._left == 0:
                raise Died(step)


def materialize(*options: object, probe: Callable[[str], None] = lambda _: None) -> tuple[int, dict[str, Any], str]:
    """A run in this process: exit code, summary, and what was said besides."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main([str(option) for option in options], probe=probe)
    *said, last = out.getvalue().splitlines()
    return code, json.loads(last), "\n".join([*said, err.getvalue()])


class Output:
    """One table of a topic, as a job keeps it."""

    def __init__(self, spark: SparkSession, stage: Stage, topic: str, path: Path, *options: object) -> None:
        self._spark = spark
        self._stage = stage
        self.topic = topic
        self.path = path
        words = ["--topic", topic, "--table", path, "--server", stage.url, "--available-now", *options]
        self.options = [str(word) for word in words]

    @property
    def dead_topic(self) -> str:
        return f"materialize-{self.path.name}.dlq"

    def run(self, *more: object, probe: Callable[[str], None] = lambda _: None) -> dict[str, Any]:
        """One that must end well; answers its counts."""
        code, summary, said = self.try_run(*more, probe=probe)
        assert code == 0, said
        return summary["topics"].get(self.topic, {})

    def try_run(self, *more: object, probe: Callable[[str], None] = lambda _: None) -> tuple[int, dict[str, Any], str]:
        return materialize(*self.options, *more, probe=probe)

    def rows(self, *columns: str) -> list[tuple[Any, ...]]:
        frame = self._spark.read.format("delta").load(str(self.path))
        return sorted((tuple(row) for row in frame.select(*columns).collect()), key=repr)

    def places(self) -> list[tuple[int, int]]:
        """Of all rows, by partition and offset; one that is there twice is here twice."""
        return sorted(self.rows("_partition", "_offset"))

    def versions(self) -> list[int]:
        names = (each.name for each in (self.path / "_delta_log").glob("*.json"))
        return sorted(int(name.removesuffix(".json")) for name in names)

    def letters(self) -> list[dict[str, Any]]:
        """Dead letters with their headers as a dictionary, in the order of their origins."""
        if self.dead_topic not in self._stage.client.get("/topics").json():
            return []
        found: list[dict[str, Any]] = []
        count = len(self._stage.client.get(f"/topics/{self.dead_topic}").json()["partitions"])
        for partition in range(count):
            for row in self._stage.read(self.dead_topic, partition):
                said = {name: value.decode() for name, value in row["headers"] if name.startswith("lakelog.dlq.")}
                found.append(row | {name.removeprefix("lakelog.dlq."): text for name, text in said.items()})
        return sorted(found, key=lambda row: (row["partition"], int(row["offset"])))
