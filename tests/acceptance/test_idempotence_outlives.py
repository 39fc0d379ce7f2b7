"""A numbered request is answered as it first was, over kills of the server and over all that becomes of its rows."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest

from delta_log.maintenance.jobs_api import Maintenance
from delta_log.model.types import DataFile
from tests.architecture.project_files import ROOT
from tests.support.cutting_proxy import CuttingProxy
from tests.support.numbered import Numbered
from tests.support.s3_server import as_options
from tests.support.serving import DEADLINE_S, Server, environment, serving, wait_for

#: What becomes of the rows of each topic.
TOPICS: dict[str, dict[str, Any]] = {
    "folded": {"lakelog.fold.files": 2},
    "rewritten": {"lakelog.fold.files": 1000},
    "compacted": {"lakelog.fold.files": 1000, "cleanup.policy": "compact", "min.cleanable.dirty.ratio": 0.01},
    "removed": {"lakelog.fold.files": 1000},
}
REQUESTS = 4
#: Of each topic; with those requests whose answer was lost.
ROWS = 2 * (REQUESTS + 2)


@dataclass
class Stage:
    """A root in a directory or a bucket, and how a server and a job are told of it."""

    place: str
    settings: dict[str, Any] = field(default_factory=dict)
    options: dict[str, str] = field(default_factory=dict)

    def files(self, topic: str) -> list[str]:
        return [file.path for file in self._files(topic)]

    def rows(self, topic: str) -> int:
        return sum(file.count for file in self._files(topic))

    def _files(self, topic: str) -> list[DataFile]:
        snapshot = Maintenance.open(self.place, store_options=self.options).topic(topic)._table.snapshot
        return [file for partition in range(2) for file in snapshot.files(partition)]

    def run_job(self, job: str, topic: str, *words: str) -> dict[str, int]:
        """What its summary says of the topic."""
        command = [sys.executable, "-m", f"jobs.{job}", f"--data={self.place}", f"--topic={topic}", "--engine=local"]
        ended = subprocess.run(
            [*command, *words, *as_options(self.options)],
            capture_output=True,
            text=True,
            timeout=DEADLINE_S,
            check=False,
            cwd=ROOT,
            env=environment(),
        )
        assert ended.returncode == 0, f"{ended.stdout}\n{ended.stderr}"
        return json.loads(ended.stdout.splitlines()[-1])["topics"][topic]


@pytest.fixture(params=["directory", "bucket"])
def stage(request: pytest.FixtureRequest, tmp_path: Path) -> Stage:
    if request.param == "directory":
        return Stage(str(tmp_path / "root"))
    s3_server = request.getfixturevalue("s3_server")
    config = tmp_path / "server.toml"
    pairs = ", ".join(f"{name} = {json.dumps(value)}" for name, value in s3_server.options.items())
    config.write_text(f"store_option = {{ {pairs} }}\n")
    return Stage(s3_server.root(f"repeated/{uuid.uuid4().hex}"), {"config": config}, s3_server.options)


def create_topics(server: Server) -> None:
    for topic, config in TOPICS.items():
        made = httpx.put(f"{server.url}/topics/{topic}", json={"partitions": 2, "configs": config})
        assert made.status_code == 201, made.text


def check_all(server: Server, producers: Sequence[Numbered]) -> None:
    for producer in producers:
        producer.check_repeats(server.url)


def change_rows(stage: Stage, server: Server) -> None:
    """Fold, compact, compact by key and remove what was sent."""
    wait_for(lambda: any("-fold-" in file for file in stage.files("folded")), "that the server folds")
    wait_for(lambda: stage.rows("rewritten") == ROWS, "that the journal has nothing that the table has not")
    assert len(stage.files("rewritten")) > 2
    stage.run_job("compaction", "rewritten", "--min-age=0s")
    assert len(stage.files("rewritten")) == 2
    wait_for(lambda: stage.run_job("key_compaction", "compacted")["passes"], "a compaction by key")
    cluster = httpx.get(server.url).json()["cluster_id"]
    changed = {"data": [{"name": "retention.ms", "value": "1"}]}
    path = f"{server.url}/v3/clusters/{cluster}/topics/removed/configs:alter"
    assert httpx.post(path, json=changed).status_code == 204
    wait_for(lambda: stage.run_job("retention", "removed") and stage.files("removed") == [], "that all is removed")


def all_values(server: Server, topic: str) -> list[bytes]:
    found: list[bytes] = []
    for partition in range(2):
        offset, end = "earliest", ""
        while offset != end:
            path = f"{server.url}/topics/{topic}/partitions/{partition}/records?decode=string&offset={offset}"
            answer = httpx.get(path)
            found += [json.loads(line)["value"].encode() for line in answer.text.splitlines()]
            offset, end = answer.headers["lakelog-next-offset"], answer.headers["lakelog-end-offset"]
    return sorted(found, key=int)


def test_a_repeat_has_the_first_offsets_whatever_became_of_the_server_and_the_rows(stage: Stage):
    producers = [Numbered(topic) for topic in TOPICS]
    with serving(stage.place, **stage.settings) as server, CuttingProxy(random.Random(1)) as proxy:
        create_topics(server)
        proxy.target = server.address
        for producer in producers:
            for _ in range(REQUESTS):
                producer.send(server.url)
            producer.send_in_vain(proxy, "lose the answer")
            producer.send_in_vain(proxy, "cut the answer")
        server.kill()

    with serving(stage.place, **stage.settings) as server:
        check_all(server, producers)
        change_rows(stage, server)
        check_all(server, producers)
        server.kill()

    with serving(stage.place, **stage.settings) as server:
        check_all(server, producers)
        for producer in producers:
            producer.send(server.url)
        check_all(server, producers)
        for producer in producers[:2]:
            assert all_values(server, producer.topic) == producer.values
        kept = all_values(server, "compacted")
        assert set(kept) < set(producers[2].values)
        assert kept[-3:] == producers[2].values[-3:]
        assert len(all_values(server, "removed")) == 2
