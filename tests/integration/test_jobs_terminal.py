"""What a person sees of a job: on a terminal how far it is, on one line; in a file nothing of that."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from pathlib import Path

from delta_log import Log, Record, Settings
from tests.architecture.project_files import ROOT
from tests.support.job_stage import let_time_pass
from tests.support.serving import environment

TOPICS = ("one", "two")


def test_progress_is_on_the_terminal_and_wiped_away_before_the_plan_and_the_summary(tmp_path: Path):
    root = tmp_path / "root"
    with Log.open(root, settings=Settings(upkeep=False)) as log:
        for topic in TOPICS:
            log.create_topic(topic)
            for number in range(3):
                log.append(topic, [Record(b"%d" % number)])
                log.flush(topic)
    let_time_pass(root)
    command = [sys.executable, "-m", "jobs.compaction", "--data", str(root), "--all", "--min-age=0s", "--engine=local"]
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        command, cwd=ROOT, env=environment(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=theirs
    )
    os.close(theirs)
    out, _ = process.communicate(timeout=50)
    shown = read_all(ours).decode()
    assert process.returncode == 0, shown
    *plan, last = out.decode().splitlines()
    assert json.loads(last)["outcome"] == "done"
    assert [line for line in plan if line.startswith("topic ")] == [f"topic {topic}" for topic in TOPICS]
    for number, topic in enumerate(TOPICS, 1):
        assert f"compaction: {topic} ({number} of 2)" in shown
    assert "1 of 1 bins" in shown
    assert shown.endswith("\r\x1b[K"), "the line is empty again"
    assert "\n" not in shown


def read_all(terminal: int) -> bytes:
    """Until nobody has the other end any more, which Linux tells by an error."""
    found = b""
    try:
        while piece := os.read(terminal, 65536):
            found += piece
    except OSError:
        pass
    finally:
        os.close(terminal)
    return found
