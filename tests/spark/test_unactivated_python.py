"""A virtual environment that is not activated: Spark asks another Python which formats there are.

Each process here has a `python3` of its path that knows nothing of lakelog, as `.venv/bin/python` has it in a shell.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from delta_log import Log, Record
from lakelog.cli.doctor.findings import Finding
from tests.architecture.project_files import ROOT
from tests.support.serving import environment

#: The Python that the environment was made with, without what is in it.
BARE = str(getattr(sys, "_base_executable", sys.executable))
PAGE = (ROOT / "docs" / "how-to" / "read-with-spark.md").read_text(encoding="utf-8")
READS = """
def values():
    frame = spark.read.format("lakelog").option("path", sys.argv[1]).option("subscribe", "orders").load()
    return sorted(bytes(row.value).decode() for row in frame.collect())
"""
BY_HAND = f"""
import sys
from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession
spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
{READS}
try:
    print(values())
except Py4JJavaError as error:
    print(error.java_exception.getMessage())
from pyspark_lakelog import register
register(spark)
print(values())
print(spark.sparkContext.parallelize([1]).map(lambda _: sys.executable).first())
spark.stop()
"""
BY_SESSION = f"""
import sys
from pyspark_lakelog import session
spark = session(master="local[1]")
{READS}
print(values())
again = session()
assert again is spark
spark.stop()
"""
EXAMINES = """
import dataclasses, json
from lakelog.cli.doctor.surroundings import examine_spark
print(json.dumps([dataclasses.astuple(each) for each in examine_spark(needed=False)]))
"""


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("unactivated") / "root"
    with Log.open(path) as log:
        log.create_topic("orders")
        log.append("orders", [Record(value=b"one"), Record(value=b"two")])
    return path


@pytest.fixture
def run(root: Path, tmp_path: Path) -> Callable[..., list[str]]:
    """What a script prints, started in a folder and with a path that know no lakelog."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "python3").symlink_to(BARE)
    given = {name: value for name, value in environment().items() if not name.startswith(("PYTHONPATH", "PYSPARK_"))}
    given |= {name: os.environ[name] for name in ("SPARK_CONF_DIR", "LAKELOG_CACHE") if name in os.environ}

    def ended(script: str, path: str | None = None) -> list[str]:
        env = given | {"PATH": path or f"{tmp_path / 'bin'}:/usr/bin:/bin", "VIRTUAL_ENV": ""}
        command = [sys.executable, "-c", script, str(root)]
        done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout.splitlines()

    return ended


def test_the_bare_python_knows_no_lakelog(tmp_path: Path):
    command = [BARE, "-c", "import pyspark_lakelog"]
    done = subprocess.run(command, cwd=tmp_path, env={"PATH": "/usr/bin:/bin"}, capture_output=True, check=False)
    assert done.returncode != 0


def test_a_session_by_hand_does_not_find_the_format_until_it_is_registered(run: Callable[..., list[str]]):
    """The message is the one that the page explains."""
    message, read, python = run(BY_HAND)
    assert message.startswith("[DATA_SOURCE_NOT_FOUND] Failed to find the data source: lakelog.")
    assert message in PAGE
    assert read == "['one', 'two']"
    assert python == sys.executable


def test_the_session_of_the_package_knows_the_format(run: Callable[..., list[str]]):
    assert run(BY_SESSION) == ["['one', 'two']"]


def test_the_doctor_names_the_python_that_knows_no_lakelog(run: Callable[..., list[str]], tmp_path: Path):
    def found(path: str | None = None) -> Finding:
        findings: list[Any] = json.loads(run(EXAMINES, path)[-1])
        (python,) = (Finding(*each) for each in findings if each[0] == "Spark Python")
        return python

    assert found().state == "warning"
    assert str(tmp_path / "bin" / "python3") in found().said
    assert found(f"{Path(sys.executable).parent}:/usr/bin:/bin").state == "ok"
