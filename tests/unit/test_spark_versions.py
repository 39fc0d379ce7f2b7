"""A Spark that streams cannot use is told in a sentence, before anything of it is missed."""

from __future__ import annotations

import json

import pytest

from delta_log.model.errors import NotAvailable
from jobs.consume import job as consume
from jobs.materialize import job as materialize
from jobs.spark.versions import check_spark, is_too_old


@pytest.mark.parametrize(
    ("version", "too_old"),
    [
        ("3.5.2", True),
        ("4.0.0", True),
        ("4.1.1", True),
        ("4.2.0", False),
        ("4.10.0", False),
        ("5.0", False),
        ("", False),
    ],
)
def test_streams_need_spark_4_2(version: str, too_old: bool):
    assert is_too_old(version) == too_old


def test_one_that_is_too_old_is_said_to_be():
    check_spark("4.2.0")
    with pytest.raises(NotAvailable, match=r"^Spark 4\.0\.0 is too old: streams and format\('lakelog'\) need 4\.2$"):
        check_spark("4.0.0")


@pytest.mark.parametrize("job", [consume, materialize])
def test_a_streaming_job_refuses_it_before_it_reaches_anything(job, capsys, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("pyspark.__version__", "4.0.0")
    more = ["--group", "g"] if job is consume else ["--table", "t", "--format", "raw"]
    code = job.main(["--server", "http://127.0.0.1:9", "--topic", "t", *more])
    summary = json.loads(capsys.readouterr().out)
    assert (code, summary["outcome"]) == (3, "refused")
    assert summary["error"].startswith("Spark 4.0.0 is too old")
