"""A job that appends reaches the server that was named, or has one of its own that ends with it."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Generator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import httpx
import pyarrow as pa
import pytest

from delta_log import Log, Settings
from delta_log.model.errors import InvalidRequest, NotARoot, NotAvailable, RootInUse
from delta_log.root.root import as_root, read_topic_defaults
from jobs.foundation.addresses import client_options
from jobs.groups.group_client import Groups
from jobs.runner.server_connection import check_url, reached
from jobs.source.options import parse_options, parse_write_options
from jobs.source.positions import Range, TopicPartition
from jobs.source.server import Numbered, Server
from jobs.source.values import parse_url
from jobs.tables import retention
from tests.architecture.project_files import ROOT
from tests.support.nobody import run_as_nobody
from tests.support.serving import environment, wait_for

DEFAULTS = {"retention.ms": 5000, "cleanup.policy": "compact", "file.delete.delay.ms": 7}
HOLDS = """
import sys, time
from jobs.runner.server_connection import reached
with reached(sys.argv[1], None) as url:
    print(url, flush=True)
    time.sleep(100)
"""

#: Of another user and another group, where the tests may be that; else a program that was told nothing of a socket.
AS_NOBODY = """
import encodings.idna, socket
from urllib.parse import unquote
os.getuid() or (os.setgroups([]), os.setgid(65534))
"""
ASKS = """
family, _, rest = url.partition("://")
found = "nothing"
try:
    if family == "http":
        host, _, port = rest.partition(":")
        peer = socket.create_connection((host, int(port)), 10)
    elif os.getuid() == 65534:
        peer = socket.socket(socket.AF_UNIX)
        peer.connect(unquote(rest))
    else:
        raise PermissionError
    peer.sendall(b"GET /topics HTTP/1.1\\r\\nHost: localhost\\r\\n\\r\\n")
    found = peer.recv(1000).decode() or found
except PermissionError:
    pass
print(found)
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    with Log.open(tmp_path / "root", settings=Settings(topic_defaults=DEFAULTS)) as log:
        log.create_topic("orders")
    return tmp_path / "root"


@pytest.fixture
def places() -> Generator[Path]:
    """Of a short name, as a socket's path is."""
    with tempfile.TemporaryDirectory(prefix="t-") as made:
        yield Path(made)


@contextmanager
def another_job(root: Path) -> Generator[tuple[subprocess.Popen[str], str]]:
    command = [sys.executable, "-c", HOLDS, str(root)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT, env=environment()) as process:
        try:
            assert process.stdout is not None
            yield process, process.stdout.readline().strip()
        finally:
            process.kill()


def is_free(root: Path) -> bool:
    place = as_root(root)
    try:
        place.hold()
    except RootInUse:
        return False
    place.let_go()
    return True


def ask(url: str, path: str) -> Any:
    with httpx.Client(**client_options(url)) as client:
        return client.get(path).json()


def test_another_user_of_the_machine_cannot_reach_a_jobs_own_server(root: Path):
    """Not by its socket, not by a port, and not where the socket's own rights are taken away."""
    with reached(str(root), None) as url:
        asked = run_as_nobody(f"{AS_NOBODY}\nurl = {url!r}", ASKS, root)
        assert (asked.stdout.split(), asked.stderr) == (["nothing"], "")
        assert ask(url, "/topics") == ["orders"]


def test_all_that_jobs_ask_a_server_goes_by_the_socket_and_by_no_proxy(root: Path, monkeypatch: pytest.MonkeyPatch):
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    place = TopicPartition("orders", 0)
    with reached(str(root), None) as url, closing(Groups(url)) as groups, closing(Server(url, 5000)) as server:
        groups.commit("billing", {place: 0})
        assert groups.committed("billing") == {place: 0}
        assert server.topics() == ["orders"]
        assert server.range(*place) == Range(0, 0)
        assert parse_url("server", f"{url}/") == check_url(url) == url
        assert retention.main(["--data", str(root), "--all", "--server", url, "--dry-run"]) == 0


def test_what_executors_of_spark_read_and_store_goes_by_the_socket_too(root: Path):
    """The calls that its source and sink make; Spark itself is tried with the Spark tests."""
    with reached(str(root), None) as url, closing(Server(url, 5000)) as server:
        options = {"server": url, "topic": "orders", "checkpointLocation": "x"}
        assert parse_write_options(options, "").server == url
        assert parse_options({"server": url, "subscribe": "orders"}, "").server == url
        rows = pa.record_batch({"key": [b"k1", b"k2"], "value": [b"tea", b"milk"]})
        part = server.begin("sink", 0, "stage")
        assert part is not None
        server.append("orders", rows, Numbered("sink", 0, part.epoch), part)
        server.commit(part.transaction, ["stage"])
        batches = server.read("orders", 0, 0, server.range("orders", 0).end, ["offset", "value"])
        assert [value for batch in batches for value in batch["value"].to_pylist()] == [b"tea", b"milk"]


def test_what_a_killed_job_left_goes_with_a_later_one_and_what_another_needs_stays(
    root: Path, places: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(tempfile, "tempdir", str(places))
    for name in ("lakelog-job-old", "lakelog-job-new", "lakelog-job-used"):
        (places / name).mkdir()
        with socket.socket(socket.AF_UNIX) as left:
            left.bind(str(places / name / "server"))
    used = places / "lakelog-job-used" / "server"
    used.unlink()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(used))
        listener.listen()
        for name in ("lakelog-job-old", "lakelog-job-used"):
            os.utime(places / name, (1_700_000_000, 1_700_000_000))
        with reached(str(root), None) as url:
            assert str(places).replace("/", "%2F") in url
            assert len(list(places.iterdir())) == 3
    assert {each.name for each in places.iterdir()} == {"lakelog-job-new", "lakelog-job-used"}


def test_a_long_name_for_temporary_files_is_no_obstacle(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    place = tmp_path / ("x" * 100)
    place.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(place))
    with reached(str(root), None) as url:
        assert ask(url, "/topics") == ["orders"]


def test_the_server_that_was_named_is_taken_as_it_is(root: Path):
    with reached(str(root), "http://127.0.0.1:1/") as url:
        assert url == "http://127.0.0.1:1"
        assert is_free(root)


def test_a_server_of_the_jobs_own_has_the_root_until_the_end_and_gives_topics_what_they_were_given(root: Path):
    with reached(str(root), None) as url:
        assert ask(url, "/topics") == ["orders"]
        assert ask(url, "/topics/orders")["configs"]["retention.ms"] == "5000"
        assert not is_free(root)
    assert is_free(root)
    assert read_topic_defaults(as_root(root).store) == DEFAULTS


def test_a_root_that_another_has_is_refused(root: Path):
    with another_job(root), pytest.raises(RootInUse, match=r"by process.*--server"), reached(str(root), None):
        pass


def test_a_server_of_a_job_that_is_killed_ends_with_it(root: Path):
    with another_job(root) as (job, url):
        assert ask(url, "/topics") == ["orders"]
        job.kill()
        wait_for(lambda: is_free(root), "that the root is free")


def test_what_cannot_be_reached_is_refused_in_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    with pytest.raises(InvalidRequest, match="neither a server is named"), reached(None, None):
        pass
    with pytest.raises(InvalidRequest, match="is not the http:// or https:// address"), reached(None, "localhost:8082"):
        pass
    with pytest.raises(NotARoot), reached(str(tmp_path), None):
        pass
    monkeypatch.setattr("jobs.runner.server_connection._PARTS", ("lakelog", "a_part_that_is_not_there"))
    with pytest.raises(NotAvailable, match=r"lakelog\[server\] brings: a_part_that_is_not_there"), reached("x", None):
        pass


def test_a_server_that_does_not_start_says_why(root: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("LAKELOG_MAX_POLL_MS", "soon")
    with pytest.raises(NotAvailable, match=r"did not start: .*max_poll_ms"), reached(str(root), None):
        pass
