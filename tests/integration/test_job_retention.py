"""What retention by a job means to those who read at the time: a group that is behind, and a reader amid an answer."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from contextlib import redirect_stdout
from pathlib import Path

import httpx
import pytest

from jobs.tables import retention
from lakelog import Admin
from tests.support.job_stage import DAY, by_delta_rs, now_ms
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


class Startled(io.StringIO):
    """Reads the plan of a job, and takes measures before the next line comes."""

    def __init__(self, stage: Stage, change: dict[str, object] | None) -> None:
        super().__init__()
        self._stage = stage
        self._change = change
        self._took = False

    def write(self, text: str) -> int:
        written = super().write(text)
        if "remove" in text and not self._took:
            self._took = True
            with Admin({"bootstrap.servers": self._stage.url}) as admin:
                if self._change is None:
                    admin.delete_topic("orders")
                else:
                    admin.alter_configs("orders", self._change)
        return written

    def run(self, *topics: str) -> tuple[int, dict]:
        with redirect_stdout(self):
            code = retention.main(["--data", self._stage.path, *topics])
        return code, json.loads(self.getvalue().splitlines()[-1])


def test_who_has_a_topic_keep_more_while_its_plan_is_shown_loses_nothing(stage: Stage):
    startled = Startled(stage, {"retention.ms": 9 * DAY})
    code, summary = startled.run("--all")
    assert (code, summary["errors"]) == (0, {})
    assert set(summary["topics"]["orders"].values()) == {0}
    assert "its settings were changed; it is planned anew" in startled.getvalue()
    assert range_of(stage) == (0, OLD + YOUNG)
    assert len(by_delta_rs(Path(stage.path), "orders")[0]) == OLD + YOUNG


def test_by_other_settings_what_leaves_is_planned_anew_and_shown(stage: Stage):
    startled = Startled(stage, {"retention.bytes": 0})
    code, summary = startled.run("--topic", "orders")
    counts = summary["topics"]["orders"]
    assert (code, counts["records"], counts["log_starts_moved"]) == (0, OLD + YOUNG, 1)
    assert startled.getvalue().count(f"log start 0 -> {OLD + YOUNG}") == 1


@pytest.mark.parametrize(("topics", "code"), [(("--all",), 0), (("--topic", "orders"), 1)])
def test_a_topic_that_is_deleted_while_its_plan_is_shown_is_an_error_where_it_was_named(
    stage: Stage, topics: tuple[str, ...], code: int
):
    ended, summary = Startled(stage, None).run(*topics)
    assert (ended, list(summary["errors"])) == (code, ["orders"] if code else [])
