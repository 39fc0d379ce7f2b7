"""Each run draws its own examples, says from which seed, and can be had once more."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.architecture.project_files import ROOT

TELLS = """
import os, pathlib
from hypothesis import given, settings, strategies as st
from tests.conftest import examples
drawn = []

@settings(max_examples=examples(20), database=None)
@given(st.lists(st.integers()))
def test_tells(values):
    drawn.append(values)

@given(st.lists(st.integers()))
def test_draws(values):
    drawn.append(values)

def test_fails():
    pathlib.Path(__file__).with_suffix(f".{os.environ['LAP']}").write_text(f"{len(drawn)} {drawn}")
    assert False
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    for name in ("tools/second-look", "tests/conftest.py"):
        (tmp_path / name).parent.mkdir()
        shutil.copy(ROOT / name, tmp_path / name)
    (tmp_path / "pytest.ini").write_text(
        "[pytest]\naddopts = --import-mode=importlib --dist=loadfile\npythonpath = .\ntimeout = 300\n"
    )
    (tmp_path / "Makefile").write_text(f"test:\n\t@{sys.executable} -m pytest $(ARGS)\n")
    (tmp_path / "tests" / "contract").mkdir()
    (tmp_path / "tests" / "contract" / "test_it.py").write_text(TELLS)
    return tmp_path


def run(project: Path, lap: str, *command: str, times: int = 1, **variables: str) -> tuple[str, str, str]:
    """The seed that was said before and behind, and what was drawn."""
    gone = ("PYTEST_ADDOPTS", "MAKEFLAGS", "MFLAGS", "MAKELEVEL", "MAKEOVERRIDES", "PYTEST_XDIST_WORKER", "CI")
    environment = {name: value for name, value in os.environ.items() if name not in gone}
    ended = subprocess.run(
        command,
        cwd=project,
        env=environment | {"LAP": lap, "LAKELOG_EXAMPLES": str(times)} | variables,
        capture_output=True,
        text=True,
        check=False,
    )
    (header,) = re.findall(r"^seed: (\d+)", ended.stdout, re.MULTILINE)
    (footer,) = re.findall(r"--hypothesis-seed=(\d+) ", ended.stdout)
    return header, footer, (project / "tests" / "contract" / f"test_it.{lap}").read_text()


@pytest.mark.parametrize("processes", ["0", "2"])
def test_a_run_says_its_seed_and_is_had_once_more_by_it(project: Path, processes: str):
    again = f"--numprocesses={processes}"
    first = run(project, "a", "make", "test", f"ARGS={again}")
    fresh = run(project, "b", "make", "test", f"ARGS={again}")
    repeated = run(project, "c", "make", "test", f"ARGS={again} --hypothesis-seed={first[0]}")
    assert first[0] == first[1]
    assert fresh[0] != first[0]
    assert fresh[2] != first[2]
    assert repeated == first


def test_in_ci_a_change_has_one_seed_and_another_change_another(project: Path):
    """Else a change that passed could be red by chance when it lands."""
    git = ("git", "-C", str(project), "-c", "user.name=a", "-c", "user.email=a@b.example")
    command = ("make", "test", "ARGS=--numprocesses=0 -p no:cacheprovider")
    for arguments in (["init", "--quiet"], ["add", "Makefile", "tests"], ["commit", "--quiet", "--message=one"]):
        subprocess.run([*git, *arguments], check=True)
    first = run(project, "a", *command, CI="true")
    assert run(project, "b", *command, CI="true") == first
    makefile = project / "Makefile"
    makefile.write_text(f"{makefile.read_text()}# another\n")
    subprocess.run([*git, "commit", "--quiet", "--all", "--message=two"], check=True)
    assert run(project, "c", *command, CI="true")[0] != first[0]


def test_what_failed_is_looked_at_again_with_the_seed_it_failed_with(project: Path):
    """Else a law that is broken for one seed would pass as chance."""
    file = project / "tests" / "contract" / "test_it.py"
    file.write_text(TELLS.replace("def test_tells(values):", "def test_tells(values):\n    assert sum(values) < 100"))
    first = run(project, "a", "make", "test", "ARGS=--numprocesses=0")
    assert run(project, "b", "tools/second-look")[:2] == first[:2]


def test_examples_are_multiplied(project: Path):
    *_, drawn = run(project, "a", "make", "test", "ARGS=--numprocesses=0", times=3)
    assert int(drawn.split()[0]) == 3 * (20 + 100)


def test_every_property_lets_its_examples_be_multiplied():
    fixed = {
        f"{file.name}: {found}"
        for file in (ROOT / "tests" / "properties").glob("*.py")
        for found in re.findall(r"max_examples=\d[\d_]*", file.read_text(encoding="utf-8"))
    }
    assert fixed == set()
