"""Jobs beside a server that goes on writing: who writes, what was acknowledged, and what everybody reads afterwards."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

from delta_log.fetch.sql import read_table
from delta_log.maintenance.jobs_api import Maintenance
from lakelog import Producer
from tests.architecture.project_files import ROOT
from tests.support.serving import DEADLINE_S, Server, environment, wait_for

TOPIC = "orders"
PARTITIONS = 2
DAY = 24 * 3_600_000
#: Jobs that have no engine to choose.
ALONE = ("vacuum", "checkpoint")
#: Offset and value.
Rows = list[tuple[int, bytes]]
Held = dict[int, Rows]


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def let_time_pass(root: Path) -> None:
    """Until the newest commit is in the past, also by the clock of the store, which is not so fine."""
    door, now = Maintenance.open(root), now_ms()
    wait_for(lambda: door.agreed_now() > now, "that time passes")


def create(server: Server, topic: str = TOPIC, **configs: object) -> None:
    """Of many small files, which the server leaves as they are unless `lakelog_fold_files` says otherwise."""
    given = {name.replace("_", "."): value for name, value in configs.items()}
    settings = {"lakelog.commit.interval.ms": 100, "lakelog.fold.files": 1000, "segment.ms": 3_600_000} | given
    made = httpx.put(f"{server.url}/topics/{topic}", json={"partitions": PARTITIONS, "configs": settings})
    assert made.status_code == 201, made.text


def forget_checkpoints(root: Path, topic: str = TOPIC) -> None:
    """As where the owner could not write any: what a table holds is in its commits."""
    log = root / "topics" / topic / "_delta_log"
    for path in [*log.glob("*.checkpoint.parquet"), log / "_last_checkpoint"]:
        path.unlink(missing_ok=True)


class Writer:
    """Sends records as long as it is told, and keeps what was acknowledged: of each partition, offset by offset."""

    pause_s = 0.02

    def __init__(self, topic: str = TOPIC) -> None:
        self.topic = topic
        self.acked: dict[int, dict[int, bytes]] = {partition: {} for partition in range(PARTITIONS)}
        self.failure: BaseException | None = None
        self._number = 0

    @property
    def count(self) -> int:
        return sum(map(len, self.acked.values()))

    def rows(self, partition: int, start: int = 0) -> Rows:
        return sorted((at, value) for at, value in self.acked[partition].items() if at >= start)

    def write(self, url: str, rounds: int, *, timestamp: int | None = None) -> None:
        """So many commits of a few records to each partition, each in the table when this returns."""
        for _ in range(rounds):
            lines = {partition: [self._value() for _ in range(3)] for partition in self.acked}
            for partition, values in lines.items():
                body: dict[str, Any] = {"records": [{"value": value.decode()} for value in values]}
                if timestamp is not None:
                    body["records"] = [each | {"timestamp": timestamp} for each in body["records"]]
                path = f"{url}/topics/{self.topic}/partitions/{partition}?wait=table"
                headers = {"Content-Type": "application/vnd.kafka.json.v2+json"}
                answer = httpx.post(path, content=json.dumps(body), headers=headers, timeout=30)
                assert answer.status_code == 200, answer.text
                for place, value in zip(answer.json()["offsets"], values, strict=True):
                    self.acked[partition][place["offset"]] = b'"%b"' % value

    @contextmanager
    def writing(self, url: str) -> Generator[None]:
        """Beside whatever is done meanwhile; it has written before that begins, and after it ended."""
        stop = threading.Event()
        thread = threading.Thread(target=self._keep_writing, args=(url, stop))
        thread.start()
        try:
            self.go_on()
            yield
            self.go_on()
        finally:
            stop.set()
            thread.join()
        assert self.failure is None, self.failure

    def go_on(self, more: int = 200) -> None:
        before = self.count
        wait_for(lambda: self.count >= before + more or self.failure, "more acknowledged records")

    def _keep_writing(self, url: str, stop: threading.Event) -> None:
        try:
            with Producer({"bootstrap.servers": url, "linger.ms": 0}) as producer:
                while True:
                    self._put(producer)
                    if stop.wait(self.pause_s):
                        return
        except BaseException as error:  # noqa: BLE001 - told by whoever waits
            self.failure = error

    def _put(self, producer: Producer) -> None:
        sent = [
            (value, producer.send(self.topic, b'"%b"' % value, partition=partition))
            for partition in self.acked
            for value in [self._value() for _ in range(5)]
        ]
        producer.flush()
        for value, future in sent:
            metadata = future.result(DEADLINE_S)
            assert metadata.partition is not None
            assert metadata.offset is not None
            self.acked[metadata.partition][metadata.offset] = b'"%b"' % value

    def _value(self) -> bytes:
        self._number += 1
        return b"%b.%d" % (self.topic.encode(), self._number)


def log_starts(url: str, topic: str = TOPIC) -> list[int]:
    return [_page(url, topic, partition, "earliest")[2] for partition in range(PARTITIONS)]


def by_http(url: str, topic: str = TOPIC) -> Held:
    held: Held = {}
    for partition in range(PARTITIONS):
        rows: Rows = []
        following: int | str = "earliest"
        while True:
            found, position, _, end = _page(url, topic, partition, following)
            rows += found
            following = position
            if position >= end:
                break
        held[partition] = rows
    return held


def _page(url: str, topic: str, partition: int, offset: int | str) -> tuple[Rows, int, int, int]:
    path = f"{url}/topics/{topic}/partitions/{partition}/records"
    answer = httpx.get(path, params={"offset": offset, "decode": "base64", "max_records": 5000}, timeout=30)
    assert answer.status_code == 200, answer.text
    records = [json.loads(line) for line in answer.text.splitlines()]
    rows = [(record["offset"], _decoded(record["value"])) for record in records]
    places = (int(answer.headers[f"lakelog-{name}-offset"]) for name in ("next", "log-start", "end"))
    return (rows, *places)


def _decoded(value: dict[str, str] | str | None) -> Any:
    return None if value is None else base64.b64decode(value["base64"] if isinstance(value, dict) else value)


def by_delta_rs(root: Path, topic: str = TOPIC) -> Held:
    return as_held(read_table(str(root / "topics" / topic), ["partition", "offset", "value"]).to_pylist())


def by_spark(spark: Any, root: Path, topic: str = TOPIC) -> Held:
    spark.catalog.clearCache()
    frame = spark.read.format("delta").load(str(root / "topics" / topic)).select("partition", "offset", "value")
    return as_held([row.asDict() for row in frame.collect()])


def as_held(rows: Sequence[dict[str, Any]]) -> Held:
    held: Held = {partition: [] for partition in range(PARTITIONS)}
    for row in rows:
        held[row["partition"]].append((row["offset"], row["value"] if row["value"] is None else bytes(row["value"])))
    return {partition: sorted(found) for partition, found in held.items()}


def check_present(held: Held, writer: Writer, starts: Sequence[int] = (0, 0)) -> None:
    """From the log start on everything that was acknowledged is held, once, at its offset, and nothing else."""
    for partition, rows in held.items():
        assert rows == writer.rows(partition, starts[partition]), f"partition {partition}"


def check_present_so_far(held: Held, writer: Writer) -> None:
    """Of a table that is being written to: the first so many records, each at its offset."""
    for partition, rows in held.items():
        assert [at for at, _ in rows] == list(range(len(rows)))
        known = writer.acked[partition]
        assert [row for row in rows if row[0] in known] == [(at, known[at]) for at, _ in rows if at in known]


def check_young_ones_stay(held: Held, writer: Writer, starts: Sequence[int]) -> None:
    """Of the old ones whole files are there or not; of the young ones the first so many."""
    for partition, rows in held.items():
        young = [at for at, _ in rows if at >= starts[partition]]
        assert young == list(range(starts[partition], starts[partition] + len(young)))
        known = writer.acked[partition]
        assert all(known.get(at, value) == value for at, value in rows)


def run_job(job: str, root: Path, *options: object) -> tuple[int, dict[str, Any], str]:
    """A job in a process of its own, without a JVM: exit code, summary, and what it printed before that."""
    return finish(start_job(job, root, *options))


def start_job(job: str, root: Path, *options: object, step: str = "-", hit: int = 1) -> subprocess.Popen[str]:
    worker = Path(__file__).parent / "job_worker.py"
    engine = [] if job in ALONE else ["--engine", "local"]
    words = [job, step, hit, "--data", root, *engine, *options]
    return subprocess.Popen(
        [sys.executable, str(worker), *map(str, words)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env=environment() | {"PATH": os.environ.get("PATH", "")},
    )


def finish(process: subprocess.Popen[str]) -> tuple[int, dict[str, Any], str]:
    out, err = process.communicate(timeout=100)
    *said, last = out.splitlines() or [""]
    summary = json.loads(last) if last.startswith("{") else {}
    return process.returncode, summary, "\n".join([*said, err])
