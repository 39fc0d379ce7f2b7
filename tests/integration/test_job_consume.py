"""The consume job before it starts Spark: what it would do, and what it refuses."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from delta_log import Log, Record
from jobs.consume import job as consume
from tests.support.serving import Server, serving

FUNCTIONS = "tests.support.consume_functions"


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("consume") / "root"
    with Log.open(made) as log:
        for topic in ("orders", "order-lines", "counts"):
            log.create_topic(topic, partitions=2)
            log.append(topic, [Record(b"%d" % number, partition=number % 2) for number in range(10)])
        log.delete_records("orders", 1, 2)
    return made


@pytest.fixture(scope="module")
def server(root: Path) -> Iterator[Server]:
    """A group has read a part of one topic."""
    with serving(root) as running:
        offsets = [{"topic": "orders", "partition": 0, "next_offset": 3}]
        httpx.put(f"{running.url}/groups/billing/offsets", json={"offsets": offsets}).raise_for_status()
        yield running


def call(capsys: pytest.CaptureFixture[str], *options: object) -> tuple[int, dict[str, Any], list[str], str]:
    """Exit code, summary, what was printed before it, and what was said to people."""
    capsys.readouterr()
    code = consume.main(list(map(str, options)))
    said = capsys.readouterr()
    *lines, last = said.out.splitlines()
    return code, json.loads(last), lines, said.err


def test_a_dry_run_says_what_is_read_from_where_and_where_it_goes_and_changes_nothing(server: Server, capsys):
    before = httpx.get(f"{server.url}/groups").json()
    way = ["--server", server.url, "--group", "billing", "--pattern", "order.*", "--dry-run"]
    code, summary, lines, _ = call(capsys, *way, "--to", "counts", "--module", f"{FUNCTIONS}.upper")
    assert (code, summary["outcome"], summary["dry_run"]) == (0, "done", True)
    assert lines == [
        "group billing",
        "topic order-lines",
        "partition 0: from 0 (earliest) to 5",
        "partition 1: from 0 (earliest) to 5",
        "topic orders",
        "partition 0: from 3 (committed) to 5",
        "partition 1: from 2 (earliest) to 5",
        f"at-least-once through {FUNCTIONS}.upper to topic counts",
    ]
    assert summary["topics"] == {
        "order-lines": {"batches": 0, "offsets": 10, "uncommitted": 0, "dead_letters": 0},
        "orders": {"batches": 0, "offsets": 5, "uncommitted": 0, "dead_letters": 0},
    }
    assert list(summary["topics"]["orders"]) == list(consume.JOB.counts)
    assert httpx.get(f"{server.url}/groups").json() == before


def test_a_dry_run_tells_who_else_reads(server: Server, capsys):
    path = f"{server.url}/consumers/audit"
    headers = {"Content-Type": "application/vnd.kafka.v2+json"}
    httpx.post(path, json={"name": "till-1"}, headers=headers).raise_for_status()
    httpx.post(f"{path}/instances/till-1/subscription", json={"topics": ["orders"]}, headers=headers).raise_for_status()
    _, _, lines, _ = call(capsys, "--server", server.url, "--group", "audit", "--topic", "orders", "--dry-run")
    assert lines[:2] == ["group audit", "member till-1 reads, too"]
    assert lines[-1] == "at-least-once to stdout"


def test_without_a_server_the_job_takes_the_root_and_is_refused_while_another_has_it(tmp_path: Path, capsys):
    root = tmp_path / "root"
    with Log.open(root) as log:
        log.create_topic("orders", partitions=2)
    options = ["--data", root, "--group", "billing", "--topic", "orders", "--dry-run"]
    code, summary, lines, _ = call(capsys, *options)
    assert (code, summary["root"]) == (0, str(root))
    assert "partition 1: from 0 (earliest) to 0" in lines
    with serving(root):
        code, summary, _, said = call(capsys, *options)
        assert (code, summary["outcome"]) == (3, "refused")
        assert f"{root} is being written by process" in said


@pytest.mark.parametrize(
    ("options", "code", "why"),
    [
        (["--topic", "nope"], 2, "there is no topic 'nope' in http://"),
        (["--topic", "orders", "--to", "nope"], 2, "there is no topic 'nope' in http://"),
        (["--topic", "orders", "--to", "orders"], 2, "the job would read what it writes"),
        (["--all", "--to", "orders"], 2, "the job would read what it writes"),
        (["--pattern", "o.*", "--to", "orders"], 2, "the job would read what it writes"),
        (["--pattern", "o(", "--to", "orders"], 2, "is not a regular expression"),
        (["--pattern", "o("], 2, "is not a regular expression"),
        (["--topic", "orders", "--module", "nowhere.f"], 2, "there is no module 'nowhere'"),
        (["--topic", "orders", "--module", f"{FUNCTIONS}.takes_three"], 2, "a function takes a DataFrame"),
        (["--topic", "orders", "--auto-offset-reset", "none"], 3, "orders-1: nothing is committed"),
        (["--topic", "orders", "--checkpoint", "c", "--delivery", "at-most-once"], 2, "cannot be delivered at most"),
        (["--topic", "orders", "--delivery", "exactly-once"], 2, "exactly once is for what goes --to a topic"),
    ],
)
def test_what_cannot_be_is_said_in_a_sentence(server: Server, capsys, options: list[str], code: int, why: str):
    found, summary, lines, said = call(capsys, "--server", server.url, "--group", "billing", *options, "--dry-run")
    assert (found, summary["topics"], lines) == (code, {}, [])
    assert why in summary["error"]
    assert said == f"consume: {summary['error']}\n"
    assert "\n" not in summary["error"]


@pytest.mark.parametrize("option", ["--table", "--checkpoint"])
def test_what_others_write_has_no_place_in_a_root(option: str, tmp_path: Path, capsys):
    """Where a server writes alone: a table there would be a topic that nobody made."""
    root, link = tmp_path / "root", tmp_path / "link"
    root.mkdir()
    link.symlink_to(root)
    for where in (root, root / "topics/copy", f"file:{root}/topics/copy", f"file://{link}/a%20copy", link / "copy"):
        way = ["--data", root, "--group", "g", "--topic", "t", option, where]
        code, summary, _, _ = call(capsys, *way)
        assert (code, summary["outcome"]) == (2, "called_wrongly")
        assert f"{option} {where} is inside of the root {root}, where a server writes alone" in summary["error"]
    assert list(root.iterdir()) == []
    bucket = ["--data", "s3://lake/root", "--group", "g", "--topic", "t", option, "s3a://lake/root/topics/copy"]
    assert "is inside of the root" in call(capsys, *bucket)[1]["error"]


@pytest.mark.parametrize(
    "options",
    [
        [],
        ["--topic", "orders"],
        ["--group", "g"],
        ["--group", "g", "--topic", "a", "--all"],
        ["--group", "g", "--topic", "a", "--available-now", "--interval", "5s"],
        ["--group", "g", "--topic", "a", "--print", "--to", "b"],
        ["--group", "g", "--topic", "a", "--max-offsets", "0"],
        ["--group", "g", "--topic", "a", "--interval", "5"],
    ],
)
def test_wrong_options_end_with_one_sentence(options: list[str], capsys):
    with pytest.raises(SystemExit) as ended:
        consume.main(["--server", "http://127.0.0.1:1", *options])
    assert ended.value.code == 2
    assert "; see python -m jobs.consume --help" in capsys.readouterr().err


def test_neither_a_root_nor_a_server_is_called_wrongly(capsys, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("LAKELOG_DATA", raising=False)
    with pytest.raises(SystemExit):
        consume.main(["--group", "g", "--topic", "a"])
    assert "--server must name a server, or --data" in capsys.readouterr().err
