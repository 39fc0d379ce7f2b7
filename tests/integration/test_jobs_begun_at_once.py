"""Jobs that begin at once in one process, as in a notebook, do not find each other's imports half done."""

import subprocess
import sys

from tests.architecture.project_files import ROOT


def test_two_that_need_the_source_at_the_same_moment_both_have_it():
    program = [sys.executable, "-m", "tests.support.begun_at_once"]
    ended = subprocess.run(program, cwd=ROOT, capture_output=True, text=True, timeout=50, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr
