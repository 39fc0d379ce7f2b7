"""Every job at once, again and again, for as long as it takes, beside a server that goes on writing.

What the policies of topics say is then all that is gone: read by HTTP, by delta-rs and by Spark. It goes on for five
seconds, or as many as LAKELOG_TOGETHER_S says.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Self

import pytest
from pyspark.sql import SparkSession

from jobs.consume import job as consume
from jobs.materialize import job as materialize
from jobs.tables import audit, compaction, key_compaction
from lakelog import Producer
from tests.architecture.project_files import ROOT
from tests.support import consume_functions as functions
from tests.support.job_stage import DAY, by_delta_rs, by_http, by_spark, now_ms, run_job
from tests.support.serving import Server, environment, serving, wait_for
from tests.support.source_stage import Stage

SECONDS = float(os.environ.get("LAKELOG_TOGETHER_S", "5"))
PATIENCE = 120
PARTITIONS = 2
KEYS = 25
#: So often the first records of a topic that forgets are old.
OLD_ROUNDS = 50
#: Of what was acknowledged by then, much is there to be compacted.
ENOUGH = 3000
#: Of a topic, partition and offset: key, value, and whether it was two days old when it was written.
Acked = dict[tuple[int, int], tuple[bytes | None, bytes | None, bool]]

TOPICS: dict[str, dict[str, Any]] = {
    "orders": {},
    # Retention removes whole files: of half a day, none of these has old records and young ones.
    "events": {"retention.ms": DAY, "segment.ms": DAY // 2},
    # Who follows a topic that drops its tombstones at once may miss one: customers keeps them, sessions does not.
    "customers": {"cleanup.policy": "compact"},
    "sessions": {"cleanup.policy": "compact,delete", "retention.ms": DAY, "delete.retention.ms": 0},
}
SETTINGS = {
    "lakelog.commit.interval.ms": 100,
    "min.cleanable.dirty.ratio": 0.01,
    "lakelog.history.commits": 100,
}
RUNS = (
    ("retention", "key_compaction", "--every", "2s"),
    ("retention", "key_compaction", "--every", "2s"),
    ("compaction", "--min-age", "0s", "--every", "2s"),
    ("audit", "--every", "5s"),
)


class Crowd:
    """Writes to all topics, and keeps what was acknowledged."""

    def __init__(self, url: str, root: Path) -> None:
        self._url = url
        self._root = root
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._write)
        self.acked: dict[str, Acked] = {topic: {} for topic in TOPICS}
        self.failure: BaseException | None = None

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    @property
    def count(self) -> int:
        return sum(map(len, self.acked.values()))

    def latest(self, topic: str) -> dict[bytes, tuple[int, int]]:
        """Where the newest record of each key is."""
        newest: dict[bytes, tuple[int, int]] = {}
        for place, (key, _, _) in sorted(self.acked[topic].items()):
            assert key is not None
            assert newest.get(key, place)[0] == place[0], "a key is in one partition"
            newest[key] = place
        return newest

    def _write(self) -> None:
        try:
            with Producer({"bootstrap.servers": self._url, "linger.ms": 0}) as producer:
                number = 0
                while not self._stop.wait(0.02):
                    number += 1
                    for topic in TOPICS:
                        self._send(producer, topic, number)
                    if number == OLD_ROUNDS:
                        wait_for(self._tables_have_all, "that no commit has old records and young ones")
        except BaseException as error:  # noqa: BLE001 - told by whoever waits
            self.failure = error

    def _tables_have_all(self) -> bool:
        """Before anything is removed or compacted."""
        return all(sum(map(len, by_delta_rs(self._root, topic).values())) == len(self.acked[topic]) for topic in TOPICS)

    def _send(self, producer: Producer, topic: str, number: int) -> None:
        """A tombstone comes now and then."""
        keyed = "compact" in TOPICS[topic].get("cleanup.policy", "")
        old = TOPICS[topic].get("retention.ms") == DAY and number <= OLD_ROUNDS
        sent = []
        for each in range(4):
            key = b"k%d" % ((number * 4 + each) % KEYS) if keyed else None
            value = None if keyed and (number + each) % 11 == 0 else b'{"n": %d, "of": %d}' % (number, each)
            at = now_ms() - 2 * DAY if old else None
            sent.append((key, value, producer.send(topic, value, key=key, timestamp=at)))
        producer.flush()
        for key, value, future in sent:
            place = future.result(20)
            assert place.partition is not None
            assert place.offset is not None
            self.acked[topic][place.partition, place.offset] = (key, value, old)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "root"


@pytest.fixture
def server(root: Path) -> Iterator[Server]:
    with serving(root) as running:
        yield running


@pytest.fixture
def stage(server: Server, root: Path) -> Iterator[Stage]:
    stage = Stage(server, root)
    yield stage
    stage.close()


@contextmanager
def scheduled(root: Path, *words: str) -> Generator[subprocess.Popen[str]]:
    """`lakelog jobs run`, which ends by itself when it is told to, after its first round at the earliest."""
    command = [
        sys.executable,
        "-m",
        "lakelog",
        "jobs",
        "run",
        *words,
        "--data",
        str(root),
        "--all",
        "--engine",
        "local",
    ]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=ROOT, env=environment()
    )
    said: list[str] = []
    reader = threading.Thread(target=lambda: said.extend(process.stdout or ()))
    reader.start()
    try:
        yield process
        wait_for(lambda: any("the next run is due" in line for line in list(said)) or process.poll(), "a round of jobs")
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0, "".join(said[-20:])
        assert not [line for line in said if '"outcome": "incomplete"' in line], "".join(said[-20:])
    finally:
        process.kill()
        process.wait()
        reader.join()
        if process.stdout is not None:
            process.stdout.close()


@contextmanager
def going_on(main: Callable[..., int], *words: object) -> Generator[None]:
    """A streaming job in a thread, until it is told to stop."""
    stopping, codes = threading.Event(), []
    thread = threading.Thread(target=lambda: codes.append(main(list(map(str, words)), stopping=stopping)))
    thread.start()
    try:
        yield
    finally:
        stopping.set()
        thread.join()
    assert codes == [0]


@pytest.mark.timeout(300 + 2 * SECONDS)
def test_all_jobs_at_once_take_what_the_policies_say_and_nothing_else(
    spark: SparkSession, server: Server, stage: Stage, root: Path, tmp_path: Path
):
    table = tmp_path / "customers"
    for topic, configs in TOPICS.items():
        stage.create(topic, PARTITIONS, **SETTINGS, **configs)
    functions.BATCHES.clear()
    reading = ("--server", server.url, "--topic", "orders", "--group", "readers", "--auto-offset-reset", "earliest")
    fields = ("--format", "json", "--schema", "n BIGINT, of INT", "--merge-by-key")
    with ExitStack() as stack:
        crowd = stack.enter_context(Crowd(server.url, root))
        wait_for(lambda: crowd.count > 1000 or crowd.failure, "the first records")
        for words in RUNS:
            stack.enter_context(scheduled(root, *words))
        stack.enter_context(going_on(consume.main, *reading, "--module", f"{functions.__name__}.keep"))
        following = ("--server", server.url, "--topic", "customers", "--table", table, *fields)
        stack.enter_context(going_on(materialize.main, *following))
        until = time.monotonic() + SECONDS
        assert compaction.main(["--data", str(root), "--all", "--min-age", "0s", "--engine", "spark"]) == 0
        assert key_compaction.main(["--data", str(root), "--all", "--engine", "spark"]) == 0
        wait_for(
            lambda: (time.monotonic() > until and crowd.count > ENOUGH) or crowd.failure,
            "that time passes",
            seconds=SECONDS + PATIENCE,
        )
        crowd.__exit__()
        assert crowd.failure is None, crowd.failure
        for group in ("readers", "materialize-customers"):
            wait_for(lambda of=group: lag(stage, of) == 0, f"that {group} arrives", seconds=PATIENCE)
    for job in ("retention", "key_compaction"):
        code, _, said = run_job(job, root, "--all")
        assert code == 0, said
    assert audit.main(["--data", str(root), "--all", "--engine", "local"]) == 0

    check_all(crowd, lambda topic: by_http(server.url, topic))
    assert sorted(row for batch in functions.BATCHES for row in batch) == sorted(
        ("orders", *place) for place in crowd.acked["orders"]
    )
    check_followed(spark, table, crowd)
    assert server.terminate() == 0
    check_all(crowd, lambda topic: by_delta_rs(root, topic))
    check_all(crowd, lambda topic: by_spark(spark, root, topic))


def lag(stage: Stage, group: str) -> int | None:
    answer = stage.client.get(f"/groups/{group}")
    return answer.json()["lag"] if answer.is_success else None


def check_all(crowd: Crowd, read: Callable[[str], dict[int, list[tuple[int, bytes | None]]]]) -> None:
    """Nothing is there that was not acknowledged so, and all that its policy keeps."""
    for topic, configs in TOPICS.items():
        held = {(partition, at): value for partition, rows in read(topic).items() for at, value in rows}
        acked = crowd.acked[topic]
        assert held == {place: acked[place][1] for place in held}, f"{topic}: records that nobody wrote"
        young = {place for place, (_, _, old) in acked.items() if not old}
        policy = configs.get("cleanup.policy", "delete")
        if policy == "delete":
            assert young <= held.keys(), f"{topic}: {sorted(young - held.keys())[:5]} are lost"
        else:
            latest = {place for place in crowd.latest(topic).values() if acked[place][1] is not None}
            assert latest & young <= held.keys(), f"{topic}: {sorted(latest & young - held.keys())[:5]} are lost"
            assert len(held) < len(young) / 2, f"{topic}: nothing was compacted"
        if configs.get("retention.ms") == DAY and policy == "delete":
            assert not held.keys() - young, f"{topic}: old records stayed"


def check_followed(spark: SparkSession, table: Path, crowd: Crowd) -> None:
    """The table has the newest value of each key that has one."""
    rows = spark.read.format("delta").load(str(table)).select("_key", "_partition", "_offset").collect()
    newest = {key: place for key, place in crowd.latest("customers").items() if crowd.acked["customers"][place][1]}
    assert {bytes(row[0]): (row[1], row[2]) for row in rows} == newest
    assert len(rows) == len(newest)
