"""What `lakelog doctor` makes of what it finds."""

from __future__ import annotations

import json

import pytest

from delta_log.model.clock_tolerance import CLOCK_TOLERANCE_MS
from delta_log.stores.store_check import Trial
from jobs.spark.python_choice import asked_python
from lakelog.cli.doctor.findings import (
    LEAST_FREE,
    SCARCE,
    Finding,
    decide_clock,
    decide_exit,
    decide_space,
    decide_trials,
    show_json,
    show_lines,
    worst_of,
)
from lakelog.cli.doctor.surroundings import decide_java, decide_python, decide_runtime, pinned

OK, WARNING, FAILED = (Finding("a check", state, "said", "cure") for state in ("ok", "warning", "failed"))
DEBIAN = 'openjdk version "17.0.12" 2024-07-16\nOpenJDK Runtime Environment\n'


def test_one_failure_fails_all_and_a_warning_nothing():
    assert [worst_of(each) for each in ([], [OK], [OK, WARNING], [FAILED, WARNING, OK])] == [
        "ok",
        "ok",
        "warning",
        "failed",
    ]
    assert [decide_exit(each) for each in ([], [OK, WARNING], [OK, FAILED])] == [0, 0, 1]


def test_what_is_wrong_with_a_trial_is_told_with_its_cure_and_what_is_right_is_named():
    assert decide_trials("rights", [Trial("create"), Trial("read")], "cure") == Finding("rights", "ok", "create, read")
    wrong = decide_trials("rights", [Trial("create"), Trial("read", "no"), Trial("list", "never")], "cure")
    assert wrong == Finding("rights", "failed", "read: no; list: never", "cure")


@pytest.mark.parametrize("sign", [1, -1])
def test_clocks_may_be_five_minutes_apart_and_no_more(sign: int):
    assert decide_clock("clock", "the store's", 10**12, 10**12 + sign * CLOCK_TOLERANCE_MS).state == "ok"
    assert decide_clock("clock", "the store's", 10**12, 10**12 + sign * (CLOCK_TOLERANCE_MS + 1)).state == "failed"


def test_room_is_enough_scarce_or_too_little():
    sizes = (SCARCE, SCARCE - 1, LEAST_FREE, LEAST_FREE - 1)
    assert [decide_space(size).state for size in sizes] == ["ok", "warning", "warning", "failed"]


@pytest.mark.parametrize(
    ("said", "state"),
    [
        (DEBIAN, "ok"),
        ('java version "21" 2023', "ok"),
        ('java version "1.8.0_402"', "warning"),
        ("", "warning"),
        (None, "warning"),
    ],
)
def test_java_must_be_17_or_newer_where_it_is_needed(said: str | None, state: str):
    assert decide_java(said, needed=False).state == state
    assert decide_java(said, needed=True).state == {"ok": "ok", "warning": "failed"}[state]


def test_a_python_that_spark_asks_in_vain_is_named_with_the_cures():
    assert decide_python("python3", "/venv/bin/python3", knows=True).state == "ok"
    for found, said in (
        ("/usr/bin/python3", "python3 is /usr/bin/python3, which has no"),
        (None, "there is no python3"),
    ):
        finding = decide_python("python3", found, knows=False)
        assert finding.state == "warning"
        assert finding.said.startswith(said)
        assert "format('lakelog') will not be found" in finding.said
        assert "PYSPARK_PYTHON" in finding.cure


@pytest.mark.parametrize(
    ("given", "asked"),
    [
        ({}, "python3"),
        ({"PYSPARK_PYTHON": "/a"}, "/a"),
        ({"PYSPARK_PYTHON": "/a", "PYSPARK_DRIVER_PYTHON": "/b"}, "/b"),
    ],
)
def test_spark_asks_the_python_of_the_driver_before_that_of_the_workers(given: dict[str, str], asked: str):
    assert asked_python(given) == asked


@pytest.mark.parametrize(
    ("spark", "state"), [("4.2.0", "ok"), ("4.10.1", "ok"), ("5.0.0", "ok"), (None, "ok"), ("4.0.0", "warning")]
)
def test_a_cluster_whose_spark_is_too_old_for_streams_is_told_so(spark: str | None, state: str):
    found = decide_runtime("17.3", spark)
    assert (found.state, "Databricks Runtime 17.3" in found.said) == (state, True)
    assert ("Spark 4.2" in found.cure) == (state == "warning")


def test_pins_are_read_from_the_metadata_of_the_package():
    metadata = [
        "httpx<1,>=0.28",
        "pyspark==4.2.0; extra == 'spark'",
        'delta-spark==4.4.0 ; extra == "spark"',
        "lakelog[jobs]; extra == 'spark'",
        "obstore<0.13,>=0.12; extra == 'jobs'",
        "other==1.0; extra == 'all'",
    ]
    assert pinned(metadata, "spark") == {"pyspark": "4.2.0", "delta-spark": "4.4.0"}


def test_lines_are_aligned_and_a_cure_stands_below_its_finding():
    shown = show_lines([Finding("root", "ok", "there"), Finding("put-if-absent", "failed", "ignored", "go elsewhere")])
    assert shown.splitlines() == [
        "ok       root           there",
        "failed   put-if-absent  ignored",
        "                        -> go elsewhere",
    ]


def test_json_has_all_of_it():
    said = json.loads(show_json([OK, FAILED]))
    assert said["outcome"] == "failed"
    assert said["checks"][1] == {"check": "a check", "state": "failed", "said": "said", "cure": "cure"}
