"""Key compaction beside a server that goes on writing: run twice at once, killed at any of its steps, refused."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from delta_log.maintenance.jobs_api import Maintenance
from jobs.tables import audit, key_compaction
from tests.support.job_stage import TOPIC, by_delta_rs, by_http, finish, let_time_pass, now_ms, run_job, start_job
from tests.support.keyed_stage import KeyedWriter, check_compacted, check_compacted_so_far, create_compacted, marks
from tests.support.serving import Server, serving, wait_for

STEPS = (
    "key_compaction.mapped",
    "store.staged",
    "store.renamed",
    "key_compaction.file_written",
    "store.linked",
    "table.committed",
    "key_compaction.committed",
)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "root"


@pytest.fixture
def server(root: Path) -> Iterator[Server]:
    with serving(root) as running:
        yield running


def clean_of(root: Path) -> dict[int, int]:
    return {partition: each.dirty_from for partition, each in enumerate(marks(root))}


def run(root: Path, *options: object) -> dict[str, int]:
    code, summary, said = run_job("key_compaction", root, "--all", *options)
    assert code == 0, said
    return summary["topics"][TOPIC]


def check_everywhere(root: Path, server: Server, writer: KeyedWriter) -> None:
    """The server reads what the last pass left within a second or so, whatever it still had in memory."""
    clean = clean_of(root)

    def agrees() -> bool:
        try:
            check_compacted(by_http(server.url), writer, clean)
        except AssertionError:
            return False
        return True

    wait_for(agrees, "that the server notices the pass")


def test_two_runs_at_once_beside_a_server_that_folds_and_writes(root: Path, server: Server):
    """Each pass is made by one of them, however often the server folds its files away."""
    writer = KeyedWriter()
    create_compacted(server, lakelog_fold_files=2)
    writer.put(server.url, 5)
    passes = given_up = 0
    with writer.writing(server.url):
        for _ in range(4):
            writer.go_on()
            let_time_pass(root)
            runs = [start_job("key_compaction", root, "--all") for _ in range(2)]
            for code, summary, said in map(finish, runs):
                assert code == 0, said
                passes += summary["topics"][TOPIC]["passes"]
                given_up += summary["topics"][TOPIC]["given_up"]
            check_compacted_so_far(by_delta_rs(root), writer)
            check_compacted_so_far(by_http(server.url), writer)
    assert passes - given_up >= 8
    check_everywhere(root, server, writer)
    assert server.terminate() == 0
    check_compacted(by_delta_rs(root), writer, clean_of(root))
    assert audit.main(["--data", str(root), "--all", "--engine", "local"]) == 0


def test_a_killed_pass_is_no_pass_or_a_whole_one_and_the_next_run_ends_its_work(root: Path, server: Server):
    writer = KeyedWriter()
    create_compacted(server)
    for step in STEPS:
        writer.put(server.url, 5)
        let_time_pass(root)
        with writer.writing(server.url):
            code, _, said = finish(start_job("key_compaction", root, "--all", step=step))
            assert code == -signal.SIGKILL, f"{step} was not hit: {said}"
            check_compacted_so_far(by_delta_rs(root), writer)
        wait_for(lambda: sum(run(root)["passes"] for _ in (1, 2)) > 0, f"a pass after a death at {step}")
        check_everywhere(root, server, writer)
    assert server.terminate() == 0
    check_compacted(by_delta_rs(root), writer, clean_of(root))


def test_topics_that_do_not_compact_and_passes_that_are_not_worth_it_are_left_alone(root: Path, server: Server):
    writer = KeyedWriter()
    create_compacted(server, cleanup_policy="delete")
    writer.put(server.url, 3)
    assert server.terminate() == 0
    version = Maintenance.open(root).topic(TOPIC).version
    assert set(run(root).values()) == {0}
    assert Maintenance.open(root).topic(TOPIC).version == version


def test_a_dry_run_prints_the_very_plan_that_the_run_then_carries_out(
    root: Path, server: Server, capsys: pytest.CaptureFixture[str]
):
    writer = KeyedWriter()
    create_compacted(server)
    writer.put(server.url, 5)
    assert server.terminate() == 0
    options = ["--data", str(root), "--topic", TOPIC, "--engine", "local"]
    version = Maintenance.open(root).topic(TOPIC).version
    capsys.readouterr()
    assert key_compaction.main([*options, "--dry-run"]) == 0
    *planned, _ = capsys.readouterr().out.splitlines()
    assert Maintenance.open(root).topic(TOPIC).version == version
    assert key_compaction.main(options) == 0
    *carried_out, _ = capsys.readouterr().out.splitlines()
    assert planned == carried_out
    assert sum(line.startswith("partition ") for line in planned) == 2
    check_compacted(by_delta_rs(root), writer, {0: 25, 1: 25})


@pytest.mark.parametrize("days", [8, -8])
def test_a_wrong_clock_is_refused(root: Path, server: Server, capsys: pytest.CaptureFixture[str], days: int):
    writer = KeyedWriter()
    create_compacted(server)
    writer.put(server.url, 2)
    wrong = now_ms() + days * 24 * 3_600_000
    options = ["--data", str(root), "--all", "--engine", "local"]
    assert key_compaction.main(options, clock_ms=lambda: wrong) == 3
    assert "clock" in capsys.readouterr().err
    assert clean_of(root) == {0: 0, 1: 0}


def test_a_damaged_file_is_named_and_the_other_partition_is_compacted(
    root: Path, server: Server, capsys: pytest.CaptureFixture[str]
):
    writer = KeyedWriter()
    create_compacted(server)
    writer.put(server.url, 5)
    assert server.terminate() == 0
    damaged = max(root.glob("topics/*/partition=0/*.parquet"), key=lambda path: path.stat().st_size)
    data = damaged.read_bytes()
    at = len(data) // 4
    damaged.write_bytes(data[:at] + bytes([data[at] ^ 0xFF]) + data[at + 1 :])
    assert key_compaction.main(["--data", str(root), "--all", "--engine", "local"]) == 1
    assert damaged.name in capsys.readouterr().err
    assert clean_of(root) == {0: 0, 1: 25}


def test_a_change_of_the_policy_keeps_how_far_the_passes_came(root: Path, server: Server):
    writer = KeyedWriter()
    create_compacted(server)
    writer.put(server.url, 5)
    wait_for(lambda: run(root)["passes"] or sum(clean_of(root).values()) == 50, "that all of it is in the table")
    before = marks(root)
    for policy in ("delete", "compact"):
        body = {"value": policy}
        path = f"{server.url}/v3/clusters/{cluster(server)}/topics/{TOPIC}/configs/cleanup.policy"
        assert httpx.put(path, json=body).status_code == 204
    assert marks(root) == before
    check_everywhere(root, server, writer)


def cluster(server: Server) -> str:
    return httpx.get(f"{server.url}/v3/clusters").json()["data"][0]["cluster_id"]
