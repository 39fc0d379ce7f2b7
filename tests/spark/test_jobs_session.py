"""`lakelog jobs run --every` with Spark: one process, one session, however often it runs."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from delta_log import Log, Record, Settings
from jobs.spark.jvm import GONE
from tests.support.job_stage import let_time_pass
from tests.support.serving import environment, java

# Behind each run a schedule draws a random number: there it says which session there is, who heeds Ctrl-C, and writes
# something to do. Its second run is amid its work when Java is killed.
PROGRAM = """
import signal
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path
from threading import Thread
from pyspark import SparkContext
from pyspark.sql import SparkSession
from jobs.foundation.registry import JOBS
from lakelog.cli.jobs.command import _call
from lakelog.cli.jobs.running import Scheduler, Stopping
from lakelog.cli.jobs.schedule import plan_order
from tests.spark.test_jobs_session import append
from tests.support.executor_fates import Fate
from tests.support.serving import wait_for

order = plan_order(sys.argv[1:], JOBS)
fate = Fate("store.staged", "stands", "mark")

def tell():
    print("session", SparkContext._active_spark_context.applicationId, flush=True)

def run_amid_which_java_is_killed(main, words):
    def kill():
        wait_for(lambda: fate.pid, "a worker")
        tell()
        SparkContext._gateway.proc.kill()
    killer = Thread(target=kill)
    killer.start()
    code = main(words, probe=fate)
    killer.join()
    return code

def run(main, words):
    return run_amid_which_java_is_killed(main, words) if len(runs) == 1 else main(words)

with Stopping(patient=True) as stopping:
    runs = []

    def chance():
        runs.append(True)
        print("heeds", signal.getsignal(signal.SIGINT) == stopping._heed)
        if len(runs) != 2:
            tell()
        append(Path(sys.argv[3]))
        if len(runs) == 3:
            stopping.event.set()
        return 0.5

    calls = [_call(name, order, stopping) for name in order.names]
    calls = [replace(call, main=partial(run, call.main)) for call in calls]
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


def test_all_runs_of_a_schedule_share_one_session_until_java_dies_and_the_next_has_another(tmp_path: Path):
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
    assert [each["topics"]["orders"]["files_written"] for each in summaries] == [1, 0, 1]
    assert [each["error"] for each in summaries] == [None, GONE, None]
    assert "Traceback" not in ended.stderr
    assert ended.stderr.count("Spark is gone; the next run starts it again\n") == 1
    first, second, third, after = (line.split()[1] for line in lines if line.startswith("session "))
    assert first == second != third
    assert after == "None"
    assert [line for line in lines if line.startswith("heeds ")] == ["heeds True"] * 3
