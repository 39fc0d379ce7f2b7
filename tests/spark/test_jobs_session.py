"""`lakelog jobs run --every` with Spark: one process, one session, however often it runs."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from delta_log import Log, Record, Settings
from tests.support.job_stage import let_time_pass
from tests.support.serving import environment, java

# Behind each run a schedule draws a random number: there it says which session there is, and writes something to do.
PROGRAM = """
import sys
from pathlib import Path
from pyspark.sql import SparkSession
from jobs.names import JOBS
from lakelog.commands.jobs import _call
from lakelog.commands.jobs_running import Scheduler, Stopping
from lakelog.commands.jobs_schedule import plan_order
from tests.spark.test_jobs_session import append

order = plan_order(sys.argv[1:], JOBS)
with Stopping(patient=True) as stopping:
    runs = []

    def chance():
        session = SparkSession.getActiveSession()
        runs.append(session)
        print("session", session and session.sparkContext.applicationId, flush=True)
        append(Path(sys.argv[3]))
        if len(runs) == 2:
            stopping.event.set()
        return 0.5

    calls = [_call(name, order, stopping) for name in order.names]
    code = Scheduler(calls, "the test", stopping).run_every(1.0, chance)
print("session", SparkSession.getActiveSession())
sys.exit(code)
"""


def append(root: Path) -> None:
    """Two more small files, which compaction makes one of."""
    with Log.open(root, settings=Settings(upkeep=False)) as log:
        for value in (b"tea", b"rum"):
            log.append("orders", [Record(value, partition=0)])
            log.flush("orders")
    let_time_pass(root)


def test_all_runs_of_a_schedule_share_one_session_that_ends_with_them(tmp_path: Path):
    root = tmp_path / "root"
    with Log.open(root, settings=Settings(upkeep=False)) as log:
        log.create_topic("orders")
    append(root)
    words = ("compaction", "--data", root, "--all", "--min-age", "0s", "--engine", "spark", "--master", "local[1]")
    ended = subprocess.run(
        [sys.executable, "-c", PROGRAM, *map(str, words)],
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
        cwd=tmp_path,
        env=environment() | java(),
    )
    assert ended.returncode == 0, ended.stderr
    lines = ended.stdout.splitlines()
    summaries = [json.loads(line) for line in lines if line.startswith("{")]
    assert [each["topics"]["orders"]["files_written"] for each in summaries] == [1, 1]
    first, second, after = (line.split()[1] for line in lines if line.startswith("session "))
    assert first == second != "None"
    assert after == "None"
