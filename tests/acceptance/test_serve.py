"""`lakelog serve` as people run it: it starts in one sentence or refuses in one, and a stop leaves nothing behind.

It is long, as every way to start in vain is tried on the real program.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Generator
from pathlib import Path

import httpx
import pytest

from delta_log import Log, LogReader
from delta_log.fetch.sql import read_table
from tests.architecture.project_files import ROOT
from tests.support.serving import DEADLINE_S, LISTENS, Server, environment, journal_of, serve_in_vain, serving, wait_for

NDJSON = {"Content-Type": "application/x-ndjson"}


def produce(server: Server, topic: str, records: int, *, first: int = 0) -> None:
    body = "".join(f'{{"number":{number}}}\n' for number in range(first, first + records))
    answer = httpx.post(f"{server.url}/topics/{topic}", content=body, headers=NDJSON)
    assert answer.status_code == 200, answer.text


def numbers(lines: str) -> list[int]:
    return [json.loads(line)["value"]["number"] for line in lines.splitlines()]


def fetch(server: Server, topic: str) -> list[int]:
    answer = httpx.get(f"{server.url}/topics/{topic}/partitions/0/records?offset=earliest")
    assert answer.status_code == 200, answer.text
    return numbers(answer.text)


def test_it_says_where_it_is_and_the_two_curl_commands_it_names_work(tmp_path: Path):
    curl = shutil.which("curl")
    assert curl is not None
    with serving(tmp_path / "data") as server:
        assert f"listens on {server.url}\n" in server.stdout
        assert f"data: {tmp_path / 'data'}\n" in server.stdout
        wait_for(lambda: "Ctrl-C stops it." in server.stdout)
        told = re.findall(r"^  (curl .*?[^\\])$", server.stdout, re.MULTILINE | re.DOTALL)
        assert len(told) == 2
        said = [
            subprocess.run(["bash", "-ec", each], capture_output=True, text=True, check=True, timeout=DEADLINE_S).stdout
            for each in told
        ]
        assert '"offset":0' in said[0]
        assert json.loads(said[1])["value"] == {"hello": "world"}
    assert len(server.stdout.splitlines()) < 10


def test_it_is_soon_ready(tmp_path: Path):
    """Generous: the figure is for an idle machine, and this one runs tests, and may stand still for a while."""

    def seconds() -> float:
        began = time.monotonic()
        with serving(tmp_path):
            return time.monotonic() - began

    assert any(seconds() < 10 for _ in range(3))


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=["SIGTERM", "Ctrl-C"])
def test_a_stop_is_clean_and_leaves_everything_in_the_tables(tmp_path: Path, number: signal.Signals):
    slowly = {"lakelog.commit.interval.ms": 3_600_000}
    with serving(tmp_path, auto_create_topics=True, topic_defaults=slowly) as server:
        for topic in ("orders", "clicks"):
            produce(server, topic, 50)
        server.process.send_signal(number)
        assert server.wait() == 0, server.story
    assert journal_of(tmp_path) == []
    for topic in ("orders", "clicks"):
        rows = read_table(str(tmp_path / "topics" / topic), ["offset", "value"]).to_pylist()
        assert sorted(row["offset"] for row in rows) == list(range(50))
    assert "Traceback" not in server.stderr


def test_kill_minus_nine_loses_nothing_acknowledged_and_the_next_start_has_it(tmp_path: Path):
    with serving(tmp_path, auto_create_topics=True) as server:
        produce(server, "orders", 100)
        assert server.kill() == -signal.SIGKILL
    with serving(tmp_path) as server:
        assert fetch(server, "orders") == list(range(100))
        produce(server, "orders", 10, first=100)
        assert fetch(server, "orders") == list(range(110))


def test_a_stop_ends_long_polls_and_followers_at_once(tmp_path: Path):
    """Without it the stop would take 30 s, and the polls a minute."""
    with serving(tmp_path, auto_create_topics=True, drain_timeout_ms=50_000) as server:
        produce(server, "orders", 1)
        answers: list[int] = []
        records = f"{server.url}/topics/orders/partitions/0/records?offset=latest"

        def poll() -> None:
            answers.append(httpx.get(f"{records}&timeout=60000", timeout=100).status_code)

        def follow() -> None:
            headers = {"Accept": "text/event-stream"}
            with httpx.stream("GET", records, headers=headers, timeout=100) as stream:
                stream.read()
                answers.append(stream.status_code)

        readers = [threading.Thread(target=each) for each in (poll, poll, follow, follow)]
        for reader in readers:
            reader.start()
        wait_for(lambda: "lakelog_http_open_polls 4.0" in httpx.get(f"{server.url}/metrics").text, "that all four wait")
        began = time.monotonic()
        assert server.terminate() == 0, server.story
        assert time.monotonic() - began < 25
        for reader in readers:
            reader.join(DEADLINE_S)
        assert answers == [200] * 4


@contextlib.contextmanager
def half_a_request(server: Server) -> Generator[None]:
    """One that the server has begun with and that does not come to its end."""
    with socket.create_connection(server.address, timeout=DEADLINE_S) as client:
        client.sendall(b"POST /topics/orders HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-ndjson\r\n")
        client.sendall(b"Content-Length: 100\r\n\r\n{")
        wait_for(lambda: "lakelog_http_connections 2" in httpx.get(f"{server.url}/metrics").text, "the connection")
        yield


def test_a_request_that_does_not_end_holds_a_stop_up_no_longer_than_it_may(tmp_path: Path):
    """Where the machine stands still, what is left of that time is not enough for the tables, which is said."""

    def is_clean(root: Path) -> bool:
        with serving(root, auto_create_topics=True, drain_timeout_ms=1500) as server:
            produce(server, "orders", 10)
            with half_a_request(server):
                began = time.monotonic()
                code = server.terminate()
                assert time.monotonic() - began < 30
        assert "timeout graceful shutdown exceeded" in server.stderr
        assert code == 0 or "the time for a stop, 1500 ms, is over" in server.stderr, server.story
        assert code != 0 or journal_of(root) == []
        return code == 0

    assert any(is_clean(tmp_path / str(number)) for number in range(5))


def test_a_second_ctrl_c_leaves_at_once_and_loses_nothing(tmp_path: Path):
    with serving(tmp_path, auto_create_topics=True, drain_timeout_ms=60_000) as server:
        produce(server, "orders", 10)
        with half_a_request(server):
            server.process.send_signal(signal.SIGINT)
            wait_for(lambda: "SIGINT: stopping" in server.stderr, "the first")
            assert server.interrupt() == 130
    assert "interrupted again" in server.stderr
    with serving(tmp_path) as server:
        assert fetch(server, "orders") == list(range(10))


def test_it_needs_no_java(tmp_path: Path):
    with serving(tmp_path, auto_create_topics=True) as server:
        produce(server, "orders", 1)
        variables = (Path("/proc") / str(server.pid) / "environ").read_bytes().split(b"\0")
        assert not any(variable.startswith(b"JAVA") for variable in variables)
        mapped = (Path("/proc") / str(server.pid) / "maps").read_text()
        assert "jvm" not in mapped
        assert "pyspark" not in mapped
        assert fetch(server, "orders") == [0]


def test_in_memory_nothing_is_written(tmp_path: Path):
    command = [sys.executable, "-m", "lakelog", "serve", "--memory", "--port=0"]
    with subprocess.Popen(
        command, cwd=tmp_path, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        try:
            assert any(line.startswith("ready") for line in process.stdout or ())
        finally:
            process.terminate()
        assert process.wait(DEADLINE_S) == 0
    assert list(tmp_path.iterdir()) == []


def test_a_second_server_on_the_same_root_is_refused_and_the_first_goes_on(tmp_path: Path):
    with serving(tmp_path, auto_create_topics=True) as server:
        produce(server, "orders", 1)
        refused = serve_in_vain(tmp_path)
        assert refused.returncode == 3
        assert f"process {server.pid}" in one_sentence(refused)
        produce(server, "orders", 1, first=1)
        assert fetch(server, "orders") == [0, 1]


def test_a_port_in_use_is_refused_before_the_data_is_touched(tmp_path: Path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        refused = serve_in_vain(tmp_path / "data", port=taken.getsockname()[1])
    assert refused.returncode == 1
    assert one_sentence(refused).endswith("is in use by another program; stop it or choose another with --port")
    elsewhere = run("--data", str(tmp_path / "data"), "--host", "192.0.2.1", "--port", "0")
    assert elsewhere.returncode == 1
    assert one_sentence(elsewhere).endswith(
        "is no address of this machine; choose another with --host, as 0.0.0.0 for all"
    )
    assert not (tmp_path / "data").exists()


def test_a_directory_of_somebody_else_is_refused_and_left_alone(tmp_path: Path):
    (tmp_path / "mine.txt").write_text("keep me")
    refused = serve_in_vain(tmp_path)
    assert refused.returncode == 8
    assert "it is not empty and has no lakelog.json" in one_sentence(refused)
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


def test_a_place_that_cannot_be_one_is_refused(tmp_path: Path):
    (tmp_path / "file").write_text("")
    for place, reason in (("file", "it is no directory"), ("file/below", "Not a directory")):
        refused = serve_in_vain(tmp_path / place)
        assert refused.returncode == 8
        assert reason in one_sentence(refused)
    refused = run("--port=0", "--data=ftp://bucket/log")
    assert refused.returncode == 8
    assert "in memory, or on s3://, gs://, az://, not on ftp://" in one_sentence(refused)


@pytest.mark.parametrize(
    ("words", "variables", "sentence"),
    [
        (["--port=many"], {}, "option --port: port cannot be 'many': it must be a whole number, 0 to 65535"),
        (["--memory=yes"], {}, "option --memory: memory cannot be 'yes': it must be true or false"),
        ([], {"LAKELOG_PORT": "x"}, "environment LAKELOG_PORT: port cannot be 'x'"),
        ([], {"LAKELOG_PROT": "1"}, "environment: there is no setting for LAKELOG_PROT; the nearest is LAKELOG_PORT"),
        (["--config=my.toml"], {}, "file my.toml: there is no setting prot; the nearest is port"),
        (["--config=none.toml"], {}, "file none.toml: it cannot be read: No such file or directory"),
        (["--config=latin.toml"], {}, "file latin.toml: it cannot be read: it is not UTF-8"),
    ],
)
def test_a_setting_that_cannot_be_used_is_one_sentence(
    tmp_path: Path, words: list[str], variables: dict[str, str], sentence: str
):
    (tmp_path / "my.toml").write_text("prot = 1\n")
    (tmp_path / "latin.toml").write_bytes(b'data = "\xe4"\n')
    refused = run(*words, folder=tmp_path, variables=variables)
    assert refused.returncode == 2
    assert sentence in one_sentence(refused)
    assert one_sentence(refused).endswith("; `lakelog serve --help` says what may be given")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["latin.toml", "my.toml"]


def test_an_option_that_is_cut_short_or_unknown_is_called_wrongly():
    for word in ("--por=1", "--no-such-option"):
        refused = run(word)
        assert refused.returncode == 2
        assert "unrecognized arguments" in refused.stderr
        assert len(refused.stderr.splitlines()) < 5


def test_check_config_says_what_is_in_force_and_where_it_comes_from(tmp_path: Path):
    (tmp_path / "my.toml").write_text('port = 1\nbroker_id = 7\nstore_option = { password = "tell nobody" }\n')
    shown = run(
        "--config=my.toml", "--port=3", "--check-config", folder=tmp_path, variables={"LAKELOG_MAX_POLL_MS": "5"}
    )
    assert shown.returncode == 0
    lines = shown.stdout.splitlines()
    for line in (
        "port = 3  # option --port",
        "broker_id = 7  # file my.toml",
        "max_poll_ms = 5  # environment LAKELOG_MAX_POLL_MS",
        "memory = false  # default",
    ):
        assert line in lines
    assert "tell nobody" not in shown.stdout


def test_it_starts_and_stops_when_nobody_reads_what_it_says(tmp_path: Path):
    reading, writing = os.pipe()
    os.close(reading)
    command = [sys.executable, "-m", "lakelog", "serve", f"--data={tmp_path}", "--port=0"]
    with subprocess.Popen(command, cwd=ROOT, env=environment(), stdout=writing, stderr=writing) as process:
        os.close(writing)
        try:
            wait_for((tmp_path / "writers").exists, "the log")
        finally:
            process.terminate()
        assert process.wait(DEADLINE_S) == 0


def test_it_goes_on_when_whoever_read_its_log_is_gone(tmp_path: Path):
    command = [sys.executable, "-m", "lakelog", "serve", f"--data={tmp_path}", "--port=0", "--access-log=all"]
    with subprocess.Popen(
        command, cwd=ROOT, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        try:
            assert process.stdout is not None
            url = next(found[1] for line in process.stdout if (found := LISTENS.search(line)))
            assert any(line.startswith("Ctrl-C") for line in process.stdout)
            process.stdout.close()
            for _ in range(20):
                assert httpx.get(f"{url}/topics").json() == []
        finally:
            process.terminate()
        assert process.wait(DEADLINE_S) == 0


def test_its_log_is_json_where_nobody_sits_and_says_what_happened(tmp_path: Path):
    with serving(tmp_path, access_log="all") as server:
        httpx.get(f"{server.url}/topics", headers={"X-Request-Id": "my-request"})
        assert server.terminate() == 0
    lines = [json.loads(line) for line in server.stderr.splitlines()]
    assert all({"time", "level", "logger", "message"} <= line.keys() for line in lines)
    assert any(line.get("request_id") == "my-request" and line.get("status") == 200 for line in lines)
    assert [line["message"] for line in lines][-1] == "stopped"


def test_a_host_that_others_can_reach_is_warned_of(tmp_path: Path):
    with serving(tmp_path, host="0.0.0.0", log_format="text") as server:
        assert server.terminate() == 0
    assert "WARNING lakelog.server: others can reach this server" in server.stderr
    with serving(tmp_path, log_format="text") as server:
        assert server.terminate() == 0
    assert "WARNING" not in server.stderr


def test_make_serve_passes_on_where_and_ctrl_c_reaches_it(tmp_path: Path):
    command = [
        "make",
        "serve",
        f"LAKELOG_VENV={sys.prefix}",
        f"DATA={tmp_path}/my data",
        "PORT=0",
        "ARGS=--memory=false",
    ]
    variables = environment() | {"DATA": "not this", "PORT": "1"}
    with subprocess.Popen(
        command, cwd=ROOT, env=variables, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
        start_new_session=True,
    ) as process:  # fmt: skip
        try:
            assert process.stdout is not None
            for line in process.stdout:
                if line.startswith("ready"):
                    break
            os.killpg(process.pid, signal.SIGINT)
            process.wait(DEADLINE_S)
        finally:
            process.kill()
    with LogReader.open(tmp_path / "my data") as reader:
        assert reader.topics() == []
    Log.open(tmp_path / "my data").close()


def run(*words: str, folder: Path = ROOT, variables: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "lakelog", "serve", *words]
    return subprocess.run(
        command, capture_output=True, text=True, timeout=DEADLINE_S, check=False, cwd=folder,
        env=environment() | (variables or {}),
    )  # fmt: skip


def one_sentence(refused: subprocess.CompletedProcess[str]) -> str:
    """What was said on stderr, which is one line of our own and no stack trace."""
    said = refused.stderr.splitlines()
    assert len(said) == 1, refused.stderr
    assert said[0].startswith("lakelog serve: ")
    assert refused.stdout == ""
    return said[0]
