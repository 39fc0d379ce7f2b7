"""`lakelog jobs`: runs by themselves and again and again, under leases, until they are told to stop."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from subprocess import PIPE
from typing import IO, cast

import pytest

from delta_log import Log, LogReader, Record, Settings
from delta_log.maintenance.lease_holder import Grip, Leases
from delta_log.maintenance.leases import Lease
from jobs.foundation.registry import JOBS
from lakelog.cli.jobs.schedule import LEASE_MS, lease_name
from lakelog.cli.main import main
from tests.architecture.project_files import ROOT
from tests.support.job_stage import let_time_pass
from tests.support.processes import running as alive
from tests.support.serving import environment, wait_for

LOCAL = ("--engine", "local")
SLOW = "slow-000000000000"
#: Whatever is written there is refused, as on a full disk.
FULL = Path("/dev/full")
#: One that says first how it is to be called, as Spark's launcher asks, and then never gets ready.
JAVA = """#!/bin/sh
case "$*" in
*launcher.Main*) printf '\\0\\n%s\\0%s\\0' "$0" gateway ;;
*) echo $$ > {began}; exec sleep 600 ;;
esac
"""
#: A job that is told to end amid its first commit.
SIGNALLED = """
import os, sys
from jobs import retention

def probe(step):
    if step == "table.committed":
        os.kill(os.getpid(), int(sys.argv[1]))

sys.exit(retention.main(sys.argv[2:], probe=probe))
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    made = tmp_path / "root"
    with Log.open(made, settings=Settings(upkeep=False)) as log:
        for topic in ("one", "two"):
            log.create_topic(topic, config={"retention.bytes": 1})
            for number in range(3):
                log.append(topic, [Record(b"%d" % number)])
                log.flush(topic)
    let_time_pass(made)
    return made


def call(capsys: pytest.CaptureFixture[str], *words: object) -> tuple[int, list[dict], str]:
    """Exit code, the summaries, and what was said to people."""
    capsys.readouterr()
    code = main(["jobs", *map(str, words)])
    said = capsys.readouterr()
    return code, [json.loads(line) for line in said.out.splitlines() if line.startswith("{")], said.err


def leases(root: Path) -> dict[str, Lease | Grip]:
    """Of each name, as somebody finds it who comes along."""
    found = (path.parent.name for path in sorted(root.glob("leases/*/*.json")))
    return {name: Leases.open(root, "the test").take(name, 1) for name in found}


def files(root: Path) -> set[Path]:
    return {path for path in root.rglob("*") if path.is_file()}


def test_every_job_is_listed_with_what_it_does(capsys):
    assert main(["jobs", "list"]) == 0
    lines = [line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines()]
    assert [name for name, _ in lines] == list(JOBS)


@pytest.mark.parametrize("name", JOBS)
def test_the_help_of_a_job_names_its_own_options_and_how_to_repeat_it(name: str, capsys):
    assert main(["jobs", "run", name, "--help"]) == 0
    shown = capsys.readouterr().out
    assert "--every TIME" in shown
    assert f"usage: lakelog jobs run {name} [-h]" in shown
    assert "--dry-run" in shown


def test_jobs_run_one_after_the_other_and_leave_their_leases_free(root: Path, capsys):
    code, summaries, said = call(capsys, "run", "retention", "compaction", "--data", root, "--all", *LOCAL)
    assert (code, [each["job"] for each in summaries], said) == (0, ["retention", "compaction"], "")
    assert summaries[0]["topics"]["one"]["files"] == 2
    assert {name: isinstance(lease, Grip) for name, lease in leases(root).items()} == {
        lease_name("retention", ["--all"]): True,
        lease_name("compaction", ["--all"]): True,
    }


def test_a_dry_run_changes_nothing_and_takes_no_lease(root: Path, capsys):
    before = files(root)
    code, (summary,), _ = call(capsys, "run", "retention", "--data", root, "--all", "--dry-run")
    assert (code, summary["dry_run"], files(root)) == (0, True, before)


def test_work_that_another_has_is_left_to_him_and_other_work_is_not(root: Path, capsys):
    held = Leases.open(root, "process 7 on elsewhere").take(lease_name("retention", ["--all"]), 3_600_000)
    assert isinstance(held, Grip)
    before = files(root)
    code, (summary,), said = call(capsys, "run", "retention", "--data", root, "--all")
    assert (code, summary["outcome"], summary["holder"]) == (0, "skipped", "process 7 on elsewhere")
    assert "left to process 7 on elsewhere, whose lease holds until" in said
    assert files(root) == before
    code, (summary,), _ = call(capsys, "run", "retention", "--data", root, "--topic", "one")
    assert (code, summary["outcome"], summary["topics"]["one"]["files"]) == (0, "done", 2)


def test_without_a_lease_because_the_store_refuses_the_work_is_done_all_the_same(root: Path, capsys):
    (root / "leases").write_text("in the way")
    code, (summary,), said = call(capsys, "run", "retention", "--data", root, "--all")
    assert (code, summary["outcome"], summary["topics"]["one"]["files"]) == (0, "done", 2)
    assert "retention runs without a lease: " in said


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["run"], "name a job"),
        (["run", "retentoin", "--all"], "there is no job 'retentoin'"),
        (["run", "retention", "--all", "--every", "often"], "'often' is no length of time"),
        (["run", "retention", "--all", "--every", "10ms"], "less than a second"),
        (["run", "retention", "--all", "--every", "366d"], "more than a year"),
        (["run", "retention", "--all", "--every", "999999999999d"], "more than a year"),
    ],
)
def test_what_cannot_be_understood_is_said_in_one_sentence(words: list[str], why: str, capsys):
    code, _, said = call(capsys, *words)
    assert (code, said.count("\n")) == (2, 1)
    assert said.startswith("lakelog jobs: ")
    assert said.endswith("; see lakelog jobs --help\n")
    assert why in said


@pytest.mark.parametrize(
    ("words", "name", "says"),
    [
        ("", "", "the following arguments are required: list|run"),
        ("run retention --all", " run retention", "--data, or the variable LAKELOG_DATA, must name the root"),
        ("run consume --all", " run consume", "the following arguments are required: --group"),
        ("run consume --group g --to x --all", " run consume", "--server must name a server, or --data, or"),
    ],
)
def test_what_is_missing_is_said_of_the_command_that_was_called(
    words: str, name: str, says: str, capsys, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.delenv("LAKELOG_DATA", raising=False)
    with pytest.raises(SystemExit) as ended:
        call(capsys, *words.split())
    said = capsys.readouterr().err
    assert (ended.value.code, said.startswith(f"lakelog jobs{name}: {says}")) == (2, True), said
    assert said.endswith(f"; see lakelog jobs{name} --help\n")


def test_an_option_that_one_of_the_jobs_does_not_have_ends_all_of_it_before_it_begins(root: Path, capsys):
    before = files(root)
    with pytest.raises(SystemExit) as ended:
        main(["jobs", "run", "compaction", "retention", "--data", str(root), "--all", "--min-age", "0s"])
    assert ended.value.code == 2
    assert "lakelog jobs run retention: unrecognized arguments: --min-age 0s; see lakelog" in capsys.readouterr().err
    assert files(root) == before


@pytest.mark.parametrize("often", [[], ["--every", "1h"]], ids=["once", "again and again"])
def test_a_place_that_is_no_root_ends_it_and_becomes_none(tmp_path: Path, capsys, often: list[str]):
    code, (summary,), _ = call(capsys, "run", "retention", "--data", tmp_path, "--all", *often)
    assert (code, summary["outcome"], list(tmp_path.iterdir())) == (8, "wrong_root", [])


class Running:
    """A program whose lines are read as they come."""

    def __init__(self, *command: object) -> None:
        self.process = subprocess.Popen(
            [sys.executable, *map(str, command)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            env=environment(),
        )
        self._out = cast("IO[str]", self.process.stdout)

    def line(self) -> str:
        return self._out.readline().strip()

    def summary(self) -> dict:
        while not (line := self.line()).startswith("{"):
            assert self.process.poll() is None, self.process.communicate()
        return json.loads(line)

    def wait_until_said(self, what: str) -> None:
        said = cast("IO[str]", self.process.stderr)
        while what not in (line := said.readline()):
            assert line, f"it ended without having said {what!r}"

    def tell(self, line: str) -> None:
        stdin = cast("IO[str]", self.process.stdin)
        stdin.write(f"{line}\n")
        stdin.flush()

    def end(self, *signals: signal.Signals) -> tuple[int, str]:
        for number in signals:
            self.process.send_signal(number)
        out, err = self.process.communicate(timeout=60)
        return self.process.returncode, out + err


@contextmanager
def running(*command: object) -> Generator[Running]:
    program = Running(*command)
    try:
        yield program
    finally:
        program.process.kill()
        program.process.communicate()


@contextmanager
def slow_job(root: Path, seconds: int) -> Generator[Running]:
    with running(ROOT / "tests/support/jobs_worker.py", root, seconds) as program:
        assert program.line() == "begun"
        yield program


@contextmanager
def stream_job(*every: str) -> Generator[Running]:
    with running(ROOT / "tests/support/stream_worker.py", "http://127.0.0.1:9", *every) as program:
        assert program.line() == "begun"
        yield program


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("every", [(), ("1h",)], ids=["once", "again and again"])
def test_a_signal_ends_a_stream_behind_the_batch_in_hand_and_the_schedule_with_it(
    every: tuple[str, ...], number: signal.Signals
):
    with stream_job(*every) as program:
        program.process.send_signal(number)
        assert program.line() == "ended"
        assert program.summary()["outcome"] == ("done" if number == signal.SIGTERM else "interrupted")
        code, said = program.end()
    assert (code, "due" in said) == (0 if number == signal.SIGTERM else 130, False)


def test_one_process_runs_again_and_again_until_it_is_told_to_stop(root: Path):
    every = ["-m", "lakelog", "jobs", "run", "retention", "--every", "1s", "--data", root, "--all"]
    with running(*every) as program:
        first = program.summary()
        assert (first["outcome"], first["topics"]["one"]["files"]) == ("done", 2)
        assert program.summary()["topics"]["one"]["files"] == 0
        (lease,) = leases(root).values()
        assert isinstance(lease, Lease)
        assert lease.holder.startswith(f"process {program.process.pid} on ")
        code, said = program.end(signal.SIGTERM)
    assert code == 0
    assert "the next run is due at " in said
    (lease,) = leases(root).values()
    assert isinstance(lease, Grip)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_a_job_without_a_schedule_with_its_summary(root: Path, number: signal.Signals):
    words = [sys.executable, "-c", SIGNALLED, str(number.value), "--data", str(root), "--all"]
    ended = subprocess.run(words, capture_output=True, text=True, env=environment(), timeout=60, check=False)
    assert (ended.returncode, ended.stderr) == (130, "retention: interrupted\n")
    assert json.loads(ended.stdout.splitlines()[-1])["outcome"] == "interrupted"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_while_spark_starts_leaves_no_java_behind(root: Path, tmp_path: Path, number: signal.Signals):
    java, began = tmp_path / "java/bin/java", tmp_path / "began"
    java.parent.mkdir(parents=True)
    java.write_text(JAVA.format(began=began))
    java.chmod(0o755)
    words = [sys.executable, "-m", "jobs.compaction", "--data", str(root), "--all", "--min-age", "0s"]
    given = environment() | {"JAVA_HOME": str(java.parent.parent), "LAKELOG_CACHE": str(tmp_path)}
    with subprocess.Popen([*words, "--engine", "spark"], env=given, stdout=PIPE, stderr=PIPE, text=True) as process:
        pid = int(wait_for(lambda: began.exists() and began.read_text().strip(), "that Java starts"))
        process.send_signal(number)
        out, said = process.communicate(timeout=60)
    assert (process.returncode, said) == (130, "compaction: interrupted\n")
    assert json.loads(out.splitlines()[-1])["outcome"] == "interrupted"
    assert not alive({pid})


def test_a_job_whose_output_has_no_room_does_its_work_all_the_same(root: Path):
    """A log beside the data fills up with them, and it is retention that makes room."""
    words = [sys.executable, "-m", "jobs.retention", "--data", str(root), "--all"]
    with FULL.open("w") as full:
        ended = subprocess.run(
            words, stdout=full, stderr=subprocess.PIPE, text=True, env=environment(), timeout=60, check=False
        )
    said = "retention: the summary could not be written: [Errno 28] No space left on device\n"
    assert (ended.returncode, ended.stderr) == (0, said)
    with LogReader.open(root) as log:
        assert log.offsets("one", 0).log_start_offset == 2


def test_a_schedule_whose_output_has_no_room_goes_on(root: Path):
    words = [sys.executable, "-m", "lakelog", "jobs", "run", "retention", "--every", "1s", "--data", str(root), "--all"]
    held = set[bytes]()

    def is_held_anew() -> bool:
        held.update(path.read_bytes() for path in root.glob("leases/*/*.json"))
        return len(held) > 4

    with FULL.open("w") as full, subprocess.Popen(words, stdout=full, stderr=full, env=environment()) as process:
        wait_for(lambda: is_held_anew() or process.poll() is not None, "the third round")
        process.terminate()
        assert process.wait(60) == 0


def test_a_run_that_fails_is_told_and_the_next_one_comes(root: Path):
    """A topic is closed by a damaged log, and open again when that is mended."""
    entry = max(root.glob("topics/one/_delta_log/*.json"))
    sound = entry.read_bytes()
    entry.write_bytes(b"")
    every = ["-m", "lakelog", "jobs", "run", "retention", "--every", "1s", "--data", root, "--all"]
    with running(*every) as program:
        assert program.summary()["outcome"] == "incomplete"
        entry.write_bytes(sound)
        outcomes = iter(lambda: program.summary()["outcome"], "done")
        assert set(outcomes) <= {"incomplete"}
        assert program.end(signal.SIGINT)[0] == 0


def test_the_code_at_the_end_is_that_of_the_last_run(root: Path):
    with slow_job(root, 3600) as program:
        program.tell("4")
        program.wait_until_said("the next run is due")
        assert program.end(signal.SIGTERM)[0] == 4


def test_the_first_signal_lets_the_run_in_hand_end(root: Path):
    with slow_job(root, 3600) as program:
        program.process.send_signal(signal.SIGTERM)
        program.wait_until_said("ends behind the run in hand")
        assert isinstance(leases(root)[SLOW], Lease)
        program.tell("0")
        assert program.line() == "ended 0"
        code, said = program.end()
    assert (code, "due" in said) == (0, False)
    assert isinstance(leases(root)[SLOW], Grip)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_the_second_signal_ends_at_once(root: Path, number: signal.Signals):
    with slow_job(root, 3600) as program:
        program.process.send_signal(number)
        program.wait_until_said("a second signal ends at once")
        assert program.end(number) == (130, "interrupted\n")
    assert isinstance(leases(root)[SLOW], Grip)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_single_run_ends_at_the_first_signal_and_gives_its_lease_up(root: Path, number: signal.Signals):
    with slow_job(root, 0) as program:
        assert program.end(number) == (130, "interrupted\n")
    assert isinstance(leases(root)[SLOW], Grip)


def test_a_scheduler_that_was_killed_holds_its_lease_for_minutes_and_no_longer(root: Path):
    with slow_job(root, 3600) as program:
        program.end(signal.SIGKILL)
    lease = leases(root)[SLOW]
    assert isinstance(lease, Lease)
    assert lease.until_ms - lease.said_ms == LEASE_MS


def test_two_schedulers_do_not_double_the_work(root: Path):
    with slow_job(root, 1) as first, running(ROOT / "tests/support/jobs_worker.py", root, 1) as second:
        assert second.summary()["outcome"] == "skipped"
        first.tell("0")
        assert [first.line(), first.line()] == ["ended 0", "begun"]
        assert second.summary()["holder"] == "the worker"
        first.tell("0")
        assert first.end(signal.SIGTERM)[0] == 0
        while (line := second.line()) != "begun":
            assert json.loads(line)["outcome"] == "skipped"
        second.tell("0")
        assert second.end(signal.SIGTERM)[0] == 0
