"""What retention by a job means to those who read at the time: a group that is behind, and a reader amid an answer."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from jobs import retention
from tests.support.job_stage import DAY, now_ms
from tests.support.serving import Server, serving, wait_for
from tests.support.source_stage import Stage

OLD, YOUNG = 24, 3
#: Together more than what lies between two sockets, so that an answer is cut off in the middle of being sent.
VALUE = b"x" * 500_000
V2 = {"Content-Type": "application/vnd.kafka.v2+json"}
READ = {"Accept": "application/vnd.kafka.binary.v2+json"}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "root"


@pytest.fixture
def server(root: Path) -> Iterator[Server]:
    with serving(root) as running:
        yield running


@pytest.fixture
def stage(server: Server, root: Path) -> Iterator[Stage]:
    """Old records in files of their own, young ones behind them, and a group that has read two of the old ones."""
    stage = Stage(server, root)
    stage.create("orders", 1, retention_ms=DAY)
    for number in range(OLD):
        stage.write("orders", [{"value": VALUE, "timestamp": now_ms() - 2 * DAY}], wait=number % 8 == 7)
    stage.write("orders", [{"value": b"young"}] * YOUNG)
    offsets = [{"topic": "orders", "partition": 0, "next_offset": 2}]
    stage.client.put("/groups/behind/offsets", json={"offsets": offsets}).raise_for_status()
    yield stage
    stage.close()


def retain(stage: Stage, capsys: pytest.CaptureFixture[str]) -> None:
    """By a job beside the server, which notices."""
    capsys.readouterr()
    assert retention.main(["--data", stage.path, "--all", "--server", stage.url]) == 0
    counts = json.loads(capsys.readouterr().out.splitlines()[-1])["topics"]["orders"]
    assert (counts["records"], counts["log_starts_moved"]) == (OLD, 1)
    wait_for(lambda: range_of(stage) == (OLD, OLD + YOUNG), "that the server notices")


def range_of(stage: Stage) -> tuple[int, int]:
    found = stage.client.get("/topics/orders/partitions/0/offsets").json()
    return found["beginning_offset"], found["end_offset"]


@pytest.mark.parametrize("reset", ["earliest", "latest"])
def test_a_group_that_is_behind_what_is_kept_goes_on_where_it_said(stage: Stage, capsys, reset: str):
    asked = {"name": "one", "format": "binary", "auto.offset.reset": reset}
    stage.client.post("/consumers/behind", json=asked, headers=V2).raise_for_status()
    one = "/consumers/behind/instances/one"
    stage.client.post(f"{one}/subscription", json={"topics": ["orders"]}, headers=V2).raise_for_status()
    retain(stage, capsys)
    seen: list[int] = []

    def poll() -> bool:
        answer = stage.client.get(f"{one}/records", params={"timeout": 100}, headers=READ)
        answer.raise_for_status()
        seen.extend(record["offset"] for record in answer.json())
        return bool(seen)

    if reset == "latest":
        assert not poll()
        stage.write("orders", [{"value": b"new"}])
    wait_for(poll, "records")
    assert seen == (list(range(OLD, OLD + YOUNG)) if reset == "earliest" else [OLD + YOUNG])


def test_a_reader_in_the_middle_of_an_answer_is_given_all_of_it(stage: Stage, capsys):
    query = {"offset": 0, "max_bytes": 15_000_000}
    with httpx.stream("GET", f"{stage.url}/topics/orders/partitions/0/records", params=query, headers=READ) as answer:
        answer.raise_for_status()
        pieces = answer.iter_raw(10_000)
        body = [next(pieces)]
        retain(stage, capsys)
        body += pieces
    found = [record["offset"] for record in json.loads(b"".join(body))]
    behind = int(answer.headers["Lakelog-Next-Offset"])
    assert found == list(range(behind))
    assert behind > 8, "of more than one file"
