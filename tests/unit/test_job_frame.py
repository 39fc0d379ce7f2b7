"""What all jobs have in common: how they are called, how they end, and what they say of it."""

from __future__ import annotations

import argparse
import io
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from delta_log import Log, Record, Settings
from delta_log.model.errors import (
    Corruption,
    InvalidRequest,
    NotARoot,
    NotAvailable,
    OutcomeUnknown,
    PlanOutdated,
    StorageRefused,
    UnknownTopic,
)
from delta_log.model.file_bin import Bin
from delta_log.model.types import DataFile
from jobs.consume.blame import blamed
from jobs.foundation.progress import Progress
from jobs.foundation.result import Exit, Summary, Unfinished, decide_exit, one_sentence
from jobs.runner.job_main import say
from jobs.runner.table_job import milliseconds
from jobs.spark.engine import LocalEngine, open_engine
from jobs.tables import checkpoint, compaction, key_compaction, retention, vacuum
from jobs.tables.compaction import plan_tasks
from tests.architecture.project_files import ROOT
from tests.support.job_stage import DAY, let_time_pass, now_ms
from tests.support.nobody import run_as_nobody
from tests.support.serving import environment


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Two topics of five files each."""
    made = tmp_path / "root"
    with Log.open(made, settings=Settings(upkeep=False)) as log:
        for topic in ("one", "two"):
            log.create_topic(topic, config={"retention.ms": DAY})
            for number in range(5):
                log.append(topic, [Record(b"%d" % number)])
                log.flush(topic)
    let_time_pass(made)
    return made


def call(capsys: pytest.CaptureFixture[str], job, *options: object, **given) -> tuple[int, dict, list[str], str]:
    """Exit code, summary, what was printed before it, and what was said to people."""
    capsys.readouterr()
    code = job.main([*map(str, options), "--engine", "local"], **given)
    said = capsys.readouterr()
    *lines, last = said.out.splitlines()
    return code, json.loads(last), lines, said.err


def test_lengths_of_time_are_read_as_people_write_them():
    assert [milliseconds(text) for text in ("0s", "500ms", "90s", "10m", "2h", "1d")] == [
        0,
        500,
        90_000,
        600_000,
        7_200_000,
        DAY,
    ]


@pytest.mark.parametrize("text", ["", "10", "10 m", "-1s", "1.5h", "1w", "m", "1m\n", "9" * 20 + "s"])
def test_what_is_no_length_of_time_is_refused(text: str):
    with pytest.raises(argparse.ArgumentTypeError, match="no length of time"):
        milliseconds(text)


@pytest.mark.parametrize(
    ("errors", "stopped_by", "code"),
    [
        ([], None, Exit.DONE),
        ([Corruption("f", "w")], None, Exit.INCOMPLETE),
        ([PlanOutdated("t", "w"), OutcomeUnknown("c", "w")], None, Exit.UNKNOWN),
        ([], StorageRefused("retention", "clock"), Exit.REFUSED),
        ([], UnknownTopic("t"), Exit.ABSENT),
        ([], NotARoot("r", "w"), Exit.WRONG_ROOT),
        ([], InvalidRequest("w"), Exit.CALLED_WRONGLY),
        ([], OutcomeUnknown("c", "w"), Exit.UNKNOWN),
        ([], RuntimeError("a bug"), Exit.INCOMPLETE),
        ([Corruption("f", "w")], KeyboardInterrupt(), Exit.INTERRUPTED),
    ],
)
def test_the_exit_code_says_how_it_ended(errors, stopped_by, code: Exit):
    assert decide_exit(dict(enumerate(errors)), stopped_by) is code


def test_an_error_is_one_sentence_whatever_it_brings_along():
    assert one_sentence(UnknownTopic("t")) == "there is no topic 't'"
    assert one_sentence(RuntimeError("\nfirst  line\n  at java.lang.Thread\n")) == "RuntimeError: first line"
    assert one_sentence(RuntimeError()) == "RuntimeError"


def test_a_summary_is_one_line():
    summary = Summary("compaction", "/a\nb", "local", dry_run=True, errors={"ü": "two\nlines"})
    assert "\n" not in summary.to_json()
    assert json.loads(summary.to_json())["errors"] == {"ü": "two\nlines"}


def test_progress_is_shown_on_a_terminal_alone_and_wiped_away():
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    shown, hidden = Terminal(), io.StringIO()
    for stream in (shown, hidden):
        progress = Progress(stream)
        progress.show("x" * 200)
        progress.wipe()
        progress.wipe()
    assert hidden.getvalue() == ""
    assert shown.getvalue() == "\r\x1b[K" + "x" * 79 + "\r\x1b[K", "of 80 columns, where nobody knows"


def a_bin(size: int, files: int = 2) -> Bin:
    return Bin(tuple(DataFile(f"{n}", 0, n, n, 1, size // files, 0, 0, 0) for n in range(files)))


def test_small_bins_share_a_task_and_a_large_one_has_its_own():
    sizes = [10, 10, 10, 90, 10, 10, 200, 10]
    tasks = plan_tasks([a_bin(size) for size in sizes], most_bytes=40, most_files=100)
    assert [[each.size for each in task] for task in tasks] == [[10, 10, 10], [90], [10, 10], [200], [10]]
    assert [len(task) for task in plan_tasks([a_bin(10)] * 5, most_bytes=1000, most_files=4)] == [2, 2, 1]
    assert plan_tasks([]) == []


def test_an_engine_asks_for_works_only_when_it_can_soon_do_them():
    """So that whoever hands them out can leave out what is no longer worth doing."""
    asked: list[int] = []

    def works():
        for number in range(100):
            asked.append(number)
            yield number

    engine = LocalEngine()
    answers = engine.map(lambda number: number * number, works())
    assert next(answers) in {n * n for n in asked}
    assert len(asked) <= 20
    assert len({*answers}) == 99


def test_an_engine_tells_what_went_wrong_and_ends():
    def fail(number: int) -> int:
        raise ValueError(number)

    with pytest.raises(ValueError, match="0"):
        list(LocalEngine().map(fail, [0]))


def test_spark_that_does_not_start_is_told_in_a_sentence(monkeypatch: pytest.MonkeyPatch):
    import jobs.spark.engine as engines

    def broken(*_: object) -> None:
        raise RuntimeError("Java gateway process exited\n  trace")

    monkeypatch.setattr(engines, "_session", broken)
    with pytest.raises(NotAvailable, match=r"^Spark does not start \(Java gateway process exited\); --engine local"):
        open_engine("spark", "a job")


def test_spark_that_does_not_start_ends_the_run_at_the_first_topic_and_changes_nothing(root: Path, tmp_path: Path):
    before = sorted(path for path in root.rglob("*") if path.is_file())
    command = [sys.executable, "-m", "jobs.compaction", "--data", root, "--all", "--min-age", "0s", "--engine", "spark"]
    ended = subprocess.run(
        list(map(str, command)),
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
        cwd=ROOT,
        env=environment() | {"JAVA_HOME": str(tmp_path / "nowhere")},
    )
    summary = json.loads(ended.stdout.splitlines()[-1])
    assert (ended.returncode, summary["outcome"], summary["errors"]) == (3, "refused", {}), ended.stderr
    assert "--engine local needs none" in summary["error"]
    assert ended.stderr.count("--engine local needs none") == 1
    assert sorted(path for path in root.rglob("*") if path.is_file()) == before


@pytest.mark.parametrize("job", [retention, compaction])
@pytest.mark.parametrize(
    "options",
    [[], ["--all"], ["--data", "x"], ["--data", "x", "--all", "--topic", "t"], ["--data", "x", "--all", "--nope"]],
)
def test_wrong_options_end_with_one_sentence(job, options: list[str], capsys, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("LAKELOG_DATA", raising=False)
    with pytest.raises(SystemExit) as ended:
        job.main(options)
    assert ended.value.code == 2
    said = capsys.readouterr().err
    assert (said.count("\n"), said.rstrip().endswith(" --help")) == (1, True)


def test_a_topic_that_is_not_there_ends_the_run_before_it_begins(root: Path, capsys):
    code, summary, lines, said = call(
        capsys, compaction, "--data", root, "--topic", "one", "--topic", "nope", "--min-age", "0s"
    )
    assert (code, summary["outcome"], summary["topics"], lines) == (5, "absent", {}, [])
    assert said == "compaction: there is no topic 'nope'\n"


def test_a_place_that_is_no_root_is_refused(tmp_path: Path, capsys):
    code, summary, _, said = call(capsys, retention, "--data", tmp_path, "--all")
    assert (code, summary["outcome"]) == (8, "wrong_root")
    assert "no lakelog.json" in said


@pytest.mark.parametrize("job", [retention, compaction])
def test_a_clock_eight_days_ahead_is_refused_and_nothing_is_changed(root: Path, capsys, job):
    before = sorted(root.rglob("*.*"))
    code, summary, lines, said = call(capsys, job, "--data", root, "--all", clock_ms=lambda: now_ms() + 8 * DAY)
    assert (code, summary["outcome"], summary["topics"], lines) == (3, "refused", {}, [])
    assert "clock" in said
    assert sorted(root.rglob("*.*")) == before


def test_what_only_looks_works_where_nothing_may_be_written(root: Path):
    for path in (root, *root.rglob("*")):
        path.chmod(0o555 if path.is_dir() else 0o444)
    before = sorted(root.rglob("*"))
    ended = run_as_nobody(
        "from jobs import audit, compaction, retention; at = ['--data', sys.argv[1], '--all']; "
        "local = [*at, '--engine', 'local']; audit.main(local)",
        "print([int(audit.main(local)), int(compaction.main([*local, '--min-age', '0s', '--dry-run'])), "
        "int(retention.main([*at, '--dry-run'])), int(retention.main(at))])",
        root,
    )
    for path in (root, *(each for each in root.rglob("*") if each.is_dir())):
        path.chmod(0o755)
    *said, codes = ended.stdout.splitlines()
    assert codes == "[0, 0, 0, 3]", ended.stderr
    (audited,) = {json.loads(line)["topics"]["one"]["records"] for line in said if '"audit"' in line}
    assert audited == 5
    assert sum("merge 5 files into one" in line for line in said) == 2
    assert "Permission denied" in said[-1]
    assert sorted(root.rglob("*")) == before


def test_a_server_that_cannot_be_asked_for_its_time_is_refused(root: Path, capsys):
    code, _, _, said = call(capsys, retention, "--data", root, "--all", "--server", "http://127.0.0.1:1")
    assert code == 3
    assert "does not say what time it is" in said


def test_what_fails_on_one_topic_does_not_stop_the_others(root: Path, capsys):
    damaged = sorted(root.glob("topics/one/partition=0/*.parquet"))[2]
    data = bytearray(damaged.read_bytes())
    data[20] ^= 0xFF
    damaged.write_bytes(data)
    code, summary, _, said = call(capsys, compaction, "--data", root, "--all", "--min-age", "0s")
    assert (code, summary["outcome"]) == (1, "incomplete")
    assert summary["topics"]["one"]["files_written"] == 0
    assert summary["topics"]["two"]["files_written"] == 1
    assert list(summary["errors"]) == ["one"]
    assert damaged.name in summary["errors"]["one"]
    assert said == f"compaction of one: {summary['errors']['one']}\n"
    assert list(root.glob("topics/one/partition=0/*-job-*")) == []


def test_a_closed_topic_is_told_and_the_others_are_cared_for(root: Path, capsys):
    entries = sorted(root.glob("topics/one/_delta_log/*.json"))
    entries[-1].write_bytes(b"")
    code, summary, _, _ = call(capsys, compaction, "--data", root, "--all", "--min-age", "0s")
    assert code == 1
    assert list(summary["topics"]) == ["two"]
    assert "one" in summary["errors"]


@pytest.fixture
def due(tmp_path: Path) -> Path:
    """Two topics of two partitions, of each of which each job has something to do."""
    made = tmp_path / "due"
    config = {"cleanup.policy": "compact,delete", "retention.bytes": 1, "min.cleanable.dirty.ratio": 0}
    with Log.open(made, settings=Settings(upkeep=False)) as log:
        for topic in ("one", "two"):
            log.create_topic(topic, partitions=2, config=config)
            for number in range(6):
                log.append(topic, [Record(b"%d" % number, b"key", partition=number % 2)])
                log.flush(topic)
    let_time_pass(made)
    return made


class BreaksAt:
    """The probe of a run to which something happens at a certain hit of a step."""

    def __init__(self, step: str, hit: int, do: Callable[[], object]) -> None:
        self._step, self._left, self._do = step, hit, do

    def __call__(self, step: str) -> None:
        if step == self._step:
            self._left -= 1
            if self._left == 0:
                self._do()


def interrupt() -> None:
    raise KeyboardInterrupt


def break_down() -> None:
    raise RuntimeError("nobody thought of it")


#: A step that comes behind a change, and what was changed by then: all of that is counted but what only just was.
STEPS = [
    (retention, "retention.files_left", 1, {"log_starts_moved": 2, "files": 4, "files_deleted": 0}),
    (compaction, "compaction.committed", 2, {"bins": 2, "files_merged": 3, "files_written": 1}),
    (
        key_compaction,
        "key_compaction.committed",
        2,
        {"passes": 2, "given_up": 0, "records_removed": 2, "files_replaced": 2},
    ),
]


@pytest.mark.parametrize(("job", "step", "hit", "counts"), STEPS)
def test_what_was_done_before_an_interrupt_is_counted(due: Path, capsys, job, step: str, hit: int, counts: dict):
    more = ["--min-age", "0s"] if job is compaction else []
    code, summary, _, _ = call(capsys, job, "--data", due, "--all", *more, probe=BreaksAt(step, hit, interrupt))
    assert (code, list(summary["topics"])) == (130, ["one"])
    assert summary["topics"]["one"].items() >= counts.items()


@pytest.mark.parametrize(("job", "step", "hit", "counts"), STEPS)
def test_what_nobody_thought_of_ends_the_work_on_one_topic(due: Path, capsys, job, step: str, hit: int, counts: dict):
    more = ["--min-age", "0s"] if job is compaction else []
    broken = BreaksAt(step, hit, break_down)
    code, summary, _, said = call(capsys, job, "--data", due, "--all", *more, probe=broken)
    assert (code, summary["errors"]) == (1, {"one": "RuntimeError: nobody thought of it"})
    assert summary["topics"]["one"].items() >= counts.items()
    assert sum(summary["topics"]["two"].values()) > sum(counts.values())
    assert said == f"{job.JOB.name} of one: RuntimeError: nobody thought of it\n"


def test_with_debug_what_nobody_thought_of_is_shown_where_it_was(due: Path, capsys):
    with pytest.raises(RuntimeError, match="nobody thought of it"):
        call(
            capsys, retention, "--data", due, "--all", "--debug", probe=BreaksAt("retention.files_left", 1, break_down)
        )


def test_a_topic_that_was_named_and_leaves_meanwhile_is_an_error_of_that_topic(due: Path, capsys):
    with Log.open(due, settings=Settings(upkeep=False)) as log:
        log.create_topic("three", config={"retention.bytes": 1})
        for number in range(3):
            log.append("three", [Record(b"%d" % number)])
            log.flush("three")
    let_time_pass(due)

    def delete() -> None:
        with Log.open(due, settings=Settings(upkeep=False)) as log:
            log.delete_topic("two")

    named = ["--topic", "one", "--topic", "two", "--topic", "three"]
    probe = BreaksAt("retention.files_left", 1, delete)
    code, summary, _, _ = call(capsys, retention, "--data", due, *named, probe=probe)
    assert (code, summary["outcome"]) == (1, "incomplete")
    assert summary["errors"] == {"two": "there is no topic 'two'"}
    assert {name: counts["files"] for name, counts in summary["topics"].items()} == {"one": 4, "three": 2}


def test_the_plan_is_printed_before_it_is_carried_out(root: Path, capsys):
    _, dry, planned, _ = call(capsys, compaction, "--data", root, "--all", "--min-age", "0s", "--dry-run")
    code, wet, done, _ = call(capsys, compaction, "--data", root, "--all", "--min-age", "0s")
    assert code == 0
    assert planned == done
    assert (dry["dry_run"], wet["dry_run"]) == (True, False)
    assert [line for line in planned if line.startswith("topic")] == ["topic one", "topic two"]


def test_the_root_may_be_named_by_a_variable(root: Path, capsys, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("LAKELOG_DATA", str(root))
    code, summary, _, _ = call(capsys, compaction, "--all", "--dry-run")
    assert (code, summary["root"]) == (0, str(root))


def test_a_summary_says_who_worked_and_not_who_might_have(root: Path, capsys):
    """Spark is not started for what this process does by itself, whoever was asked for."""
    for job in (retention, compaction):
        capsys.readouterr()
        assert job.main(["--data", str(root), "--all", "--engine", "spark", "--dry-run"]) == 0
        assert json.loads(capsys.readouterr().out.splitlines()[-1])["engine"] == "local"


@pytest.mark.parametrize("job", [vacuum, checkpoint])
@pytest.mark.parametrize("option", [["--engine", "spark"], ["--master", "spark://nowhere"]])
def test_a_job_without_work_for_executors_has_no_options_for_them(job, option: list[str], root: Path, capsys):
    with pytest.raises(SystemExit) as ended:
        job.main(["--data", str(root), "--all", *option])
    assert (ended.value.code, "unrecognized arguments" in capsys.readouterr().err) == (2, True)
    assert job.main(["--data", str(root), "--all"]) == 0
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["engine"] == "local"


@pytest.mark.parametrize("job", [retention, compaction])
@pytest.mark.parametrize("dry", [["--dry-run"], []])
def test_a_summary_counts_what_the_job_says_that_it_counts(root: Path, capsys, job, dry: list[str]):
    _, summary, _, _ = call(capsys, job, "--data", root, "--all", *dry)
    assert [list(counts) for counts in summary["topics"].values()] == [list(job.JOB.counts)] * 2


def test_no_record_is_blamed_where_there_is_no_room_for_what_is_printed(monkeypatch: pytest.MonkeyPatch):
    with Path("/dev/full").open("w") as full:
        monkeypatch.setattr(sys, "stdout", full)
        with pytest.raises(Unfinished, match=r"stdout could not be written: .*No space left"), blamed(BrokenPipeError):
            say(Progress(), ["a row"])
        full.flush()  # what could not be written is not tried again
        monkeypatch.undo()
