"""`lakelog doctor`: at sound places, at places that cannot keep a log, and beside a server that is at work."""

from __future__ import annotations

import json
import threading
import uuid
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import httpx
import pytest

from delta_log import Log
from lakelog import Producer
from lakelog.cli.main import main
from tests.support.nobody import run_as_nobody
from tests.support.serving import serving, wait_for

SOUND = {"root", "rights", "put-if-absent", "system calls", "free space", "clock"}


def examine(capsys: pytest.CaptureFixture[str], *words: object) -> tuple[int, dict[str, dict]]:
    capsys.readouterr()
    code = main(["doctor", "--output", "json", *map(str, words)])
    said = json.loads(capsys.readouterr().out)
    return code, {each["check"]: each for each in said["checks"]}


def states(checks: dict[str, dict]) -> dict[str, str]:
    """Without what is told of this machine alone."""
    return {name: each["state"] for name, each in checks.items() if name in SOUND}


def snapshot(folder: Path) -> dict[Path, bytes | None]:
    return {path: path.read_bytes() if path.is_file() else None for path in folder.rglob("*")}


@pytest.fixture(autouse=True)
def _place_of_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LAKELOG_DATA", raising=False)
    monkeypatch.delenv("LAKELOG_SERVER", raising=False)


@pytest.mark.parametrize("place", ["", "not/there/yet"], ids=["empty", "missing"])
def test_a_place_without_a_root_is_tried_and_stays_as_it_was(tmp_path: Path, capsys, place: str):
    code, checks = examine(capsys, "--data", tmp_path / place)
    assert (code, states(checks)) == (0, dict.fromkeys(SOUND, "ok"))
    assert "the first server makes a root of it" in checks["root"]["said"]
    assert list(tmp_path.iterdir()) == []


def test_a_root_is_tried_and_stays_as_it_was(tmp_path: Path, capsys):
    with Log.open(tmp_path / "root") as log:
        log.create_topic("orders")
        cluster = log.cluster_id
    before = snapshot(tmp_path)
    code, checks = examine(capsys, "--data", tmp_path / "root")
    assert (code, states(checks)) == (0, dict.fromkeys(SOUND, "ok"))
    assert cluster in checks["root"]["said"]
    assert snapshot(tmp_path) == before


def test_a_server_at_work_is_not_disturbed_and_its_root_is_told_from_another(tmp_path: Path, capsys):
    with serving(tmp_path / "root", auto_create_topics=True) as server:
        stop, sent = threading.Event(), list[int]()

        def write() -> None:
            with Producer({"bootstrap.servers": server.url, "linger.ms": 0}) as producer:
                while not stop.is_set():
                    metadata = producer.send("orders", b"tea").result(60)
                    sent.append(metadata.offset or 0)

        thread = threading.Thread(target=write)
        thread.start()
        try:
            wait_for(lambda: sent, "a record")
            for _ in range(5):
                code, checks = examine(capsys, "--data", tmp_path / "root", "--server", server.url)
                assert (code, states(checks)) == (0, dict.fromkeys(SOUND, "ok"))
                assert [checks[name]["state"] for name in ("server", "server's clock", "cluster")] == ["ok"] * 3
        finally:
            stop.set()
            thread.join()
        assert sent == list(range(len(sent)))
        assert list((tmp_path / "root/journal/staging").glob("probe-*")) == []
        with Log.open(tmp_path / "another"):
            pass
        code, checks = examine(capsys, "--data", tmp_path / "another", "--server", server.url)
        assert (code, checks["cluster"]["state"]) == (1, "failed")
        assert httpx.get(f"{server.url}/readyz").status_code == 200


def test_with_a_server_alone_no_place_is_looked_at(tmp_path: Path, capsys, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    with serving(None) as server:
        code, checks = examine(capsys, "--server", server.url)
        assert (code, states(checks), checks["server"]["state"]) == (0, {}, "ok")
        assert examine(capsys, "--server", server.url.removeprefix("http://"))[1]["server"]["state"] == "ok"
        monkeypatch.setenv("LAKELOG_SERVER", server.url.removeprefix("http://"))
        code, checks = examine(capsys)
        assert (code, states(checks), checks["server"]["state"]) == (0, {}, "ok")
        code, checks = examine(capsys, "--data", tmp_path / "named")
        assert (states(checks), "server" in checks) == (dict.fromkeys(SOUND, "ok"), False)
    monkeypatch.setenv("LAKELOG_SERVER", "no such")
    assert main(["doctor"]) == 2
    assert "the variable LAKELOG_SERVER: 'no such' is no server" in capsys.readouterr().err


def test_without_options_it_is_the_place_where_a_server_would_begin(tmp_path: Path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert "./lakelog-data holds nothing yet" in examine(capsys)[1]["root"]["said"]
    monkeypatch.setenv("LAKELOG_DATA", str(tmp_path / "chosen"))
    assert f"{tmp_path}/chosen holds nothing yet" in examine(capsys)[1]["root"]["said"]


def test_lines_are_the_text_that_other_commands_have(tmp_path: Path, capsys):
    assert main(["doctor", "--data", str(tmp_path), "--output", "text"]) == 0
    assert capsys.readouterr().out.startswith("ok ")


def test_what_a_killed_doctor_left_does_not_keep_a_root_from_being_made(tmp_path: Path):
    (tmp_path / ".lakelog-trial-x" / "journal").mkdir(parents=True)
    Log.open(tmp_path).close()


def test_a_place_with_something_else_in_it_fails_and_is_left_alone(tmp_path: Path, capsys):
    (tmp_path / "letters").write_text("private")
    code, checks = examine(capsys, "--data", tmp_path)
    assert (code, states(checks)) == (1, {"root": "failed"})
    assert "not empty and has no lakelog.json" in checks["root"]["said"]
    assert [path.name for path in tmp_path.iterdir()] == ["letters"]


@pytest.mark.parametrize("place", ["letters", "letters/below"])
def test_a_file_where_a_folder_should_be_fails(tmp_path: Path, capsys, place: str):
    (tmp_path / "letters").write_text("private")
    code, checks = examine(capsys, "--data", tmp_path / place)
    assert (code, states(checks)) == (1, {"root": "failed"})
    assert (tmp_path / "letters").read_text() == "private"


def test_a_root_of_a_newer_format_fails(tmp_path: Path, capsys):
    (tmp_path / "lakelog.json").write_text('{"cluster_id":"x","format":99}')
    code, checks = examine(capsys, "--data", tmp_path)
    assert (code, states(checks)) == (1, {"root": "failed"})
    assert "newer than this version" in checks["root"]["said"]


def test_missing_rights_fail_with_their_cure(tmp_path: Path):
    place, other = tmp_path / "place", tmp_path / "other"
    place.mkdir(mode=0o555)
    ended = run_as_nobody(
        "from lakelog.cli.main import main; main(['doctor', '--output', 'json', '--data', sys.argv[2]])",
        "sys.exit(main(['doctor', '--output', 'json', '--data', sys.argv[1]]))",
        place,
        other,
    )
    place.chmod(0o755)
    before, after = (json.loads(line) for line in ended.stdout.splitlines())
    assert (ended.returncode, before["checks"][0]["state"], after["checks"][0]["state"]) == (1, "ok", "failed")
    assert "Permission denied" in after["checks"][0]["said"]
    assert list(place.iterdir()) == []


def test_a_server_that_is_none_or_not_there_fails(capsys):
    class Other(BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"hello")

        def log_message(self, *_):
            pass

    with HTTPServer(("127.0.0.1", 0), Other) as other:
        thread = threading.Thread(target=other.serve_forever, args=(0.01,))
        thread.start()
        try:
            code, checks = examine(capsys, "--server", f"http://127.0.0.1:{other.server_port}")
        finally:
            other.shutdown()
            thread.join()
    assert (code, checks["server"]["state"]) == (1, "failed")
    assert "no lakelog server" in checks["server"]["said"]
    assert (
        "does not answer" in examine(capsys, "--server", f"http://127.0.0.1:{other.server_port}")[1]["server"]["said"]
    )


def test_spark_is_needed_only_where_that_is_said(tmp_path: Path, capsys, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    code, checks = examine(capsys, "--data", tmp_path)
    assert (code, checks["Java"]["state"]) == (0, "warning")
    code, checks = examine(capsys, "--data", tmp_path, "--spark")
    assert (code, checks["Java"]["state"]) == (1, "failed")
    monkeypatch.setenv("DATABRICKS_RUNTIME_VERSION", "17.3")
    assert examine(capsys, "--data", tmp_path, "--spark")[0] == 0


def test_a_bucket_is_tried_and_stays_empty(s3_server, capsys, monkeypatch: pytest.MonkeyPatch):
    for name, value in s3_server.options.items():
        monkeypatch.setenv(name.upper(), value)
    place = s3_server.root(f"doctor-{uuid.uuid4().hex}")
    code, checks = examine(capsys, "--data", place)
    assert (code, states(checks)) == (0, dict.fromkeys(SOUND - {"system calls", "free space"}, "ok")), checks
    assert not any(path.is_file() for path in s3_server.folder.rglob("*doctor-*/**/probe-*"))


def test_people_get_a_line_for_each_check(tmp_path: Path, capsys):
    assert main(["doctor", "--data", str(tmp_path)]) == 0
    assert capsys.readouterr().out.startswith(f"ok       root           {tmp_path} holds nothing yet;")
