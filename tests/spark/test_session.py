"""The session reads what delta-rs wrote: the least that every job stands on."""

import os
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
from chispa import assert_df_equality
from deltalake import write_deltalake
from pyspark.sql import SparkSession

from tests.architecture.project_files import ROOT

ROWS = [
    (0, 0, datetime(2026, 1, 1, tzinfo=UTC), b"key", b"value"),
    (0, 1, datetime(2026, 1, 1, 0, 0, 0, 1, tzinfo=UTC), None, b""),
    (1, 0, datetime(2026, 1, 2, tzinfo=UTC), b"", None),
]
ARROW_SCHEMA = pa.schema(
    [
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", pa.timestamp("us", tz="UTC")),
        ("key", pa.binary()),
        ("value", pa.binary()),
    ]
)
SPARK_SCHEMA = "partition INT, offset BIGINT, timestamp TIMESTAMP, key BINARY, value BINARY"
STARTS = """
import sys
from pathlib import Path
from jobs.spark.session import build_session
build_session("new here", master="local[1]", cache_dir=Path(sys.argv[1])).stop()
"""
TRIES = """
import sys
from pathlib import Path
from delta_log.model.errors import NotAvailable
from jobs.spark.session import build_session
try:
    build_session("nowhere", master="local[1]", cache_dir=Path(sys.argv[1]), extra={"spark.jars.packages": sys.argv[2]})
except NotAvailable as error:
    print(error)
"""


def test_spark_reads_a_partitioned_delta_table_as_it_was_written(spark: SparkSession, tmp_path: Path):
    rows = [dict(zip(ARROW_SCHEMA.names, row, strict=True)) for row in ROWS]
    write_deltalake(tmp_path, pa.Table.from_pylist(rows, ARROW_SCHEMA), partition_by=["partition"])

    read = spark.read.format("delta").load(str(tmp_path))

    assert_df_equality(read, spark.createDataFrame(ROWS, SPARK_SCHEMA), ignore_row_order=True)


def test_workers_run_this_interpreter(spark: SparkSession):
    def executable(_: int) -> str:
        return sys.executable

    assert spark.sparkContext.parallelize([0], 1).map(executable).collect() == [sys.executable]


def test_programs_that_start_at_once_on_a_new_machine_do_not_spoil_each_others_jars(tmp_path: Path):
    words = [sys.executable, "-c", STARTS, str(tmp_path)]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    programs = [subprocess.Popen(words, env=environment, stderr=subprocess.PIPE, text=True) for _ in range(2)]
    said = [program.communicate(timeout=200)[1] for program in programs]
    assert [program.returncode for program in programs] == [0, 0], said


def test_why_no_session_starts_is_said_in_a_sentence(tmp_path: Path):
    def said(**environment: str) -> str:
        words = [sys.executable, "-c", TRIES, str(tmp_path), "org.example:absent:1.0"]
        environment = os.environ | {"PYTHONPATH": str(ROOT)} | environment
        return subprocess.run(words, env=environment, capture_output=True, text=True, timeout=200, check=True).stdout

    helps = "`lakelog doctor --spark` says what helps"
    assert said() == f"org.example:absent:1.0 could not be fetched into {tmp_path / 'ivy'}; {helps}\n"
    why = f"JAVA_HOME is {tmp_path}, where no Java is that works"
    assert said(JAVA_HOME=str(tmp_path)) == f"{why}: install Java 17 or newer, or set JAVA_HOME\n"
