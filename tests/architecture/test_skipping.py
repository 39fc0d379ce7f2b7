"""A check that does not run protects nothing: under CI=true a skipped test is a failed one."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

CONFTEST = Path(__file__).parents[1] / "conftest.py"

SKIPPED_WHILE_RUNNING = """
import pytest

@pytest.mark.skip(reason="no tide today")
def test_marked():
    pass

def test_called():
    pytest.skip("no tide today")
"""
SKIPPED_WHILE_COLLECTED = """
import pytest

pytest.skip("no tide today", allow_module_level=True)
"""
EXPECTED_TO_FAIL = """
import pytest

@pytest.mark.xfail(reason="no tide today")
def test_marked():
    assert False
"""


def run_pytest(folder: Path, test: str, *, ci: bool) -> subprocess.CompletedProcess[str]:
    (folder / "conftest.py").write_text(CONFTEST.read_text())
    (folder / "test_it.py").write_text(test)
    # Without a configuration file of its own the run would take the one of a folder above.
    (folder / "pytest.ini").write_text("[pytest]\naddopts = -ra -p no:cacheprovider\n")
    environment = {name: value for name, value in os.environ.items() if name not in ("CI", "PYTEST_ADDOPTS")}
    return subprocess.run(
        [sys.executable, "-m", "pytest", str(folder)],
        env=environment | ({"CI": "true"} if ci else {}),
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize("test", [SKIPPED_WHILE_RUNNING, SKIPPED_WHILE_COLLECTED], ids=["running", "collected"])
def test_a_skipped_test_fails_under_ci_and_says_why(tmp_path: Path, test: str):
    ended = run_pytest(tmp_path, test, ci=True)
    assert ended.returncode not in (0, 5), ended.stdout
    assert "no tide today" in ended.stdout
    assert " skipped" not in ended.stdout.splitlines()[-1]


def test_a_skipped_test_only_says_why_elsewhere(tmp_path: Path):
    ended = run_pytest(tmp_path, SKIPPED_WHILE_RUNNING, ci=False)
    assert ended.returncode == 0, ended.stdout
    assert ended.stdout.count("no tide today") == 2
    assert "2 skipped" in ended.stdout.splitlines()[-1]


def test_an_expected_failure_is_not_a_skipped_test(tmp_path: Path):
    ended = run_pytest(tmp_path, EXPECTED_TO_FAIL, ci=True)
    assert ended.returncode == 0, ended.stdout
