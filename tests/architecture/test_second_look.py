"""What failed is looked at once more by CI, but for what is no chance."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.architecture.project_files import ROOT

AS_CI = "make test ARGS=--numprocesses=2"
ALL = "import pathlib, pytest\nclass Broken(AssertionError): ...\n"
PASSES = "def test_passes(): pass\n"
LATE_ONCE = """
def test_late():
    at = pathlib.Path(__file__).with_suffix(".seen")
    seen = at.exists()
    at.touch()
    assert seen
"""
ALWAYS_LATE = "def test_late(): assert False\n"
LOST_ONCE = LATE_ONCE.replace("assert seen", "if not seen: raise Broken('a record is gone')")
FOUR_LATE = "\n".join(
    LATE_ONCE.replace("late()", f"late_{number}()").replace(".seen", f".{number}") for number in "1234"
)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    for name in ("tools/second-look", "tests/conftest.py"):
        (tmp_path / name).parent.mkdir()
        shutil.copy(ROOT / name, tmp_path / name)
    (tmp_path / "pytest.ini").write_text("[pytest]\naddopts = --import-mode=importlib\n")
    (tmp_path / "Makefile").write_text(f"test:\n\t@{sys.executable} -m pytest $(ARGS)\n")
    return tmp_path


def run(project: Path, tests: str, lane: str = "acceptance", first: str = AS_CI) -> subprocess.CompletedProcess[str]:
    (project / "tests" / lane).mkdir()
    (project / "tests" / lane / "test_it.py").write_text(f"{ALL}{tests}")
    gone = ("PYTEST_ADDOPTS", "MAKEFLAGS", "MFLAGS", "MAKELEVEL", "MAKEOVERRIDES")
    return subprocess.run(
        ["/bin/sh", "-c", f"{first} || tools/second-look"],
        env={name: value for name, value in os.environ.items() if name not in gone},
        cwd=project,
        capture_output=True,
        text=True,
        check=False,
    )


def test_nothing_is_looked_at_twice_that_passes(project: Path):
    ended = run(project, PASSES)
    assert ended.returncode == 0, ended.stdout
    assert "second look" not in ended.stdout + ended.stderr


def test_what_passes_alone_is_green_and_named_and_the_rest_is_not_run_again(project: Path):
    ended = run(project, PASSES + LATE_ONCE)
    assert ended.returncode == 0, ended.stdout
    assert "\n  tests/acceptance/test_it.py::test_late\n" in ended.stdout.split("A second look")[1]
    assert "1 passed" in ended.stdout.splitlines()[-1]


def test_what_fails_again_is_red(project: Path):
    ended = run(project, PASSES + ALWAYS_LATE)
    assert ended.returncode != 0
    assert "A second look" in ended.stdout


@pytest.mark.parametrize(
    ("tests", "lane", "reason"),
    [
        (LOST_ONCE, "acceptance", "tests/acceptance/test_it.py::test_late found a promise broken"),
        (LATE_ONCE, "unit", "tests/unit/test_it.py::test_late starts nothing that could be late"),
        (FOUR_LATE, "acceptance", "4 tests failed"),
    ],
    ids=["broken", "unit", "four"],
)
def test_what_is_no_chance_stays_red(project: Path, tests: str, lane: str, reason: str):
    ended = run(project, PASSES + tests, lane)
    assert ended.returncode != 0
    assert f"No second look: {reason}" in ended.stderr
    assert "A second look" not in ended.stdout


def test_a_run_that_fails_without_a_test_stays_red(project: Path):
    ended = run(project, PASSES, first="make no-such-target")
    assert ended.returncode != 0
    assert "No second look: No test failed" in ended.stderr
