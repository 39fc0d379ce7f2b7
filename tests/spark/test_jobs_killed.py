"""Streaming jobs, killed at each of their steps with the JVM that they have, and run again.

One process stands at all of the steps at once, each with a group and topics of its own, or a table, when it is killed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import pytest
from pyspark.sql import SparkSession

from jobs.consume import job as consume
from jobs.materialize import job as materialize
from tests.spark.test_job_consume import FUNCTIONS, forget_members, next_offsets
from tests.spark.test_job_materialize import Source, as_table
from tests.support.materializing import Output
from tests.support.serving import serving, wait_for
from tests.support.source_stage import Stage
from tests.support.standing_jobs import Standing, kill_at

#: Of all that is prepared for the first test and of that test itself, which takes a minute and a half.
pytestmark = pytest.mark.timeout(900)
#: Run by each Python as it starts.
TOO_LATE = """
import os, sys
if "pyspark.sql.streaming.python_streaming_source_runner" in sys.orig_argv and not os.path.exists({at!r}):
    open({at!r}, "w").close()
    sys.exit("too late")
"""
WORDS = (b"tea", b"rum", b"tea", b"tea", b"rum", b"tea")


class Case(NamedTuple):
    """`times` is how often the output of the batch in hand is there in the end; of every other it is once.

    In that batch a record is given up, but where a function remembers; by the function, or as it `raises`.
    """

    delivery: str
    step: str
    times: int
    remembers: bool = False
    job: str = "jobs.consume"
    raises: bool = False

    @property
    def name(self) -> str:
        kind = "-kept" if self.remembers else "" if self.job == "jobs.consume" else "-broken"
        return f"{self.delivery}-{self.step}{kind}{'-raises' if self.raises else ''}"

    @property
    def letters(self) -> int:
        """Lost are those of a job that commits first, and passed over those of a batch that is not done again."""
        return int(bool(self.times) and not (self.raises and self.job != "jobs.consume"))

    def standing(self, directory: Path, url: str) -> Standing:
        hit = 1 if self.step in {"lettered", "probed"} else 2
        words = ["--server", url, "--available-now", "--max-offsets", 2, *self.options(directory)]
        return Standing(self.job, f"consume.{self.step}", hit, words)

    def options(self, directory: Path) -> list[object]:
        words = ["--group", self.name, "--topic", self.name, "--to", f"to-{self.name}", "--delivery", self.delivery]
        if self.raises:
            return [*words, "--module", f"{FUNCTIONS}.fails_on_twos", "--max-delivery-attempts", 1]
        if not self.remembers:
            return [*words, "--module", f"{FUNCTIONS}.gives_up_twos"]
        return [*words, "--module", f"{FUNCTIONS}.count", "--checkpoint", directory / self.name]


#: What is there when a job dies is what its steps have stored by then, so of steps between which nothing is stored one
#: is here: the end of a batch is the same at most and at least once, and a transaction without and with offsets is.
#: With a checkpoint Spark does the batch again in each case: what it writes down itself comes after the last step.
CASES = (
    Case("at-least-once", "put", 2),
    Case("at-least-once", "lettered", 2),
    Case("at-least-once", "committed", 1),
    Case("at-most-once", "committed", 0),
    Case("exactly-once", "lettered", 1),
    Case("exactly-once", "committed", 1),
    Case("at-least-once", "committed", 2, remembers=True),
    Case("exactly-once", "moved", 1, remembers=True),
    Case("exactly-once", "committed", 1, remembers=True),
    # That is what is seen of a job which commits its offsets beside the transaction: the batch in hand is lost.
    Case("exactly-once", "lettered", 0, job="tests.support.hasty_consume"),
    # The second of the batch is what the first is probed by: at least once it is put out for that, in each run.
    Case("at-least-once", "probed", 3, raises=True),
    Case("exactly-once", "lettered", 1, raises=True),
    # The same job again: the letter is lost.
    Case("exactly-once", "lettered", 1, job="tests.support.hasty_consume", raises=True),
)
LATEST = ["--group", "latest", "--topic", "latest", "--to", "to-latest", "--auto-offset-reset", "latest"]
#: Of materialize. What is stored when a run is killed: the table, its mark, dead letters, rows with their mark, the
#: group's offsets.
STEPS = (("shaped", 1), ("claimed", 1), ("lettered", 2), ("stored", 2), ("committed", 2))


class Table(NamedTuple):
    """A table with its topic, and the step at which the run that made it stood."""

    source: Source
    output: Output
    step: str
    hit: int

    @property
    def standing(self) -> Standing:
        words = [*self.output.options, "--max-offsets", 10]
        return Standing("jobs.materialize", f"materialize.{self.step}", self.hit, words)


class Killed(NamedTuple):
    """What was under way. `directory` has the checkpoints of those that remember, `late` is of the job of that name."""

    stage: Stage
    directory: Path
    tables: Sequence[Table]
    late: Future[int]


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> Iterator[Killed]:
    directory = tmp_path_factory.mktemp("killed")
    with serving(directory / "root") as server:
        stage = Stage(server, directory / "root")
        for name in ("latest", *(case.name for case in CASES)):
            stage.create(name, 1)
            stage.create(f"to-{name}", 1)
            stage.write(name, [{"key": word, "value": b"%d" % number} for number, word in enumerate(WORDS)])
        # Spark waits ten seconds for what comes too late, and is not needed here meanwhile.
        late = begin_too_late(spark, stage, directory)
        killed = Killed(stage, directory, list(tables(spark, stage, directory)), late)
        standing = [case.standing(directory, stage.url) for case in CASES]
        placed = Standing("jobs.consume", "consume.placed", 1, ["--server", stage.url, *LATEST])
        kill_at([*standing, placed, *(each.standing for each in killed.tables)])
        yield killed
        stage.close()


def tables(spark: SparkSession, stage: Stage, directory: Path) -> Iterator[Table]:
    kinds: dict[str, tuple[tuple[object, ...], Sequence[tuple[str, int]]]] = {
        "appended": ((), STEPS),
        "merged": (("--merge-by-key",), STEPS[2:4]),
        "by-fields": (("--merge-by", "id,name"), STEPS[2:3]),
    }
    for kind, (options, steps) in kinds.items():
        for step, hit in steps:
            topic = f"{kind}-{step}"
            source, output = Source(stage, topic), as_table(spark, stage, topic, directory, *options)
            source.write(20)
            yield Table(source, output, step, hit)


def begin_too_late(spark: SparkSession, stage: Stage, directory: Path) -> Future[int]:
    """A job as on a busy machine: the first process that Spark starts for its stream never gets to its work."""
    (directory / "sitecustomize.py").write_text(TOO_LATE.format(at=str(directory / "late")))
    for topic in ("patient", "to-patient"):
        stage.create(topic, 1)
    stage.fill("patient", 3)
    words = ["--server", stage.url, "--available-now", "--group", "patient", "--topic", "patient"]
    pool = ThreadPoolExecutor(1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(spark.sparkContext.environment, "PYTHONPATH", str(directory))
        begun = pool.submit(consume.main, [*words, "--to", "to-patient"])
        wait_for(lambda: (directory / "late").exists() or begun.done(), "that it is too late")
    pool.shutdown(wait=False)
    return begun


def run_again(main: Callable[[Sequence[str]], int], runs: Iterable[Sequence[object]]) -> None:
    """Two at a time."""
    with ThreadPoolExecutor(2) as pool:
        codes = list(pool.map(lambda words: main([str(word) for word in words]), runs))
    assert set(codes) == {0}


def test_a_table_whose_run_is_killed_at_any_step_has_nothing_undone_and_nothing_twice(killed: Killed):
    """More comes before the next runs: a batch is not the same when it is done again."""
    for source, output, step, _ in killed.tables:
        assert len(output.places()) == {"lettered": 8, "stored": 16, "committed": 16}.get(step, 0)
        source.write(7)
    run_again(materialize.main, [each.output.options for each in killed.tables])
    for source, output, _, _ in killed.tables:
        source.check(output)


def test_a_query_whose_python_comes_too_late_is_begun_again(killed: Killed):
    assert killed.late.result(60) == 0
    assert (killed.directory / "late").exists()
    assert [row["value"] for row in killed.stage.read("to-patient", 0)] == [b"0", b"1", b"2"]


def test_a_consumer_that_is_killed_at_any_step_repeats_or_leaves_out_what_its_delivery_says(killed: Killed):
    stage, directory = killed.stage, killed.directory
    for name in ("latest", *(case.name for case in CASES)):
        forget_members(stage, name)
        stage.write(name, [{"key": b"gin", "value": b"6"}])
    here = ["--server", stage.url, "--available-now"]
    run_again(consume.main, [[*here, *words] for words in (LATEST, *(case.options(directory) for case in CASES))])
    assert [row["value"] for row in stage.read("to-latest", 0)] == [b"6"], "what came behind its place is owed"
    for case in CASES:
        check(case, [(row["key"], row["value"]) for row in stage.read(f"to-{case.name}", 0)])
        if not case.remembers:
            letters = [row["value"] for row in stage.read(f"{case.name}.dlq", 0)] if case.letters else []
            assert letters == [b"2"] * case.letters, case
        assert next_offsets(stage, case.name) == [len(WORDS) + 1]


def check(case: Case, stored: list[tuple[bytes, bytes]]) -> None:
    """Of the batches (0, 1), (2, 3) and what is behind these, the second was in hand."""
    if not case.remembers:
        expected = Counter({number: 1 for number in range(len(WORDS) + 1) if number not in {2, 3}})
        expected[3] = case.times
        assert Counter(int(value) for _, value in stored) == +expected, case
        return
    assert dict(stored) == {b"tea": b"4", b"rum": b"2", b"gin": b"1"}, case
    assert stored.count((b"tea", b"3")) == case.times, case
    again = [each for each in stored if each != (b"tea", b"3")]
    assert len(again) == len(set(again)), case
