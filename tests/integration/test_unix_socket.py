"""A server on a Unix socket: every client reaches it there, other users do not, and no name is left or taken away."""

from __future__ import annotations

import asyncio
import os
import re
import socket
import stat
import subprocess
import tempfile
from collections.abc import Generator
from contextlib import suppress
from pathlib import Path
from urllib.parse import quote

import httpx
import pytest

from ingest_api.config.settings import UnusableSetting
from ingest_api.config.sources import choose_settings
from lakelog import Admin, AsyncProducer, Consumer, Producer
from lakelog.cli.main import main
from lakelog.transport.addresses import client_options
from tests.support.nobody import run_as_nobody
from tests.support.serving import Server, serving

_ASKS = """
peer = socket.socket(socket.AF_UNIX)
try:
    peer.connect(sys.argv[2])
    peer.sendall(b"GET /healthz HTTP/1.1\\r\\nHost: localhost\\r\\n\\r\\n")
    print(peer.recv(1000).decode() or "cut off")
except (PermissionError, ConnectionResetError, BrokenPipeError) as error:
    print("cut off" if not isinstance(error, PermissionError) else "refused")
"""


@pytest.fixture
def path() -> Generator[Path]:
    """Of a short name, as a socket's path is."""
    with tempfile.TemporaryDirectory(prefix="t-") as made:
        yield Path(made) / "a b" / "lakelog.sock"


@pytest.fixture
def server(path: Path) -> Generator[Server]:
    path.parent.mkdir()
    with serving(None, unix_socket=path, auto_create_topics=True) as running:
        yield running


def get(server: Server, path: str) -> httpx.Response:
    with httpx.Client(**client_options(server.url)) as client:
        return client.get(path)


def test_its_url_names_its_path_and_only_its_user_may_use_it(server: Server, path: Path):
    assert server.url == f"http+unix://{quote(str(path), safe='')}"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert "others can reach this server" not in server.stderr
    opened: list[str] = []
    for each in Path(f"/proc/{server.pid}/fd").iterdir():
        with suppress(FileNotFoundError):  # closed meanwhile
            opened.append(str(each.readlink()))
    inodes = {each[len("socket:[") : -1] for each in opened if each.startswith("socket:[")}
    assert inodes
    tables = [Path(f"/proc/{server.pid}/net/{name}") for name in ("tcp", "tcp6")]
    rows = [line.split() for table in tables if table.exists() for line in table.read_text().splitlines()[1:]]
    assert not [row for row in rows if row[9] in inodes]


async def produce_async(server: Server) -> int | None:
    async with AsyncProducer({"bootstrap.servers": server.url}) as producer:
        sent = await producer.send("orders", b"milk")
        return (await sent).offset


@pytest.mark.parametrize("slash", ["", "/"])
def test_all_clients_reach_it(server: Server, capsys: pytest.CaptureFixture[str], slash: str):
    url = server.url + slash
    with Producer({"bootstrap.servers": url}) as producer:
        assert producer.send("orders", b"tea").result(60).offset == 0
    assert asyncio.run(produce_async(server)) == 1
    with Consumer({"bootstrap.servers": url, "group.id": "g", "auto.offset.reset": "earliest"}) as consumer:
        consumer.subscribe(["orders"])
        found: list[bytes | None] = []
        while len(found) < 2:
            found += [record.value for record in consumer.poll(1000)]
    assert found == [b"tea", b"milk"]
    with Admin({"bootstrap.servers": url}) as admin:
        assert admin.list_topics() == ["orders"]
    assert main(["topics", "list", "--server", url]) == 0
    assert capsys.readouterr().out.split() == ["orders"]
    main(["doctor", "--server", url])
    assert re.search(r"ok +server", capsys.readouterr().out)
    assert main(["sql", "SELECT 1", "--server", url]) == 8
    assert "keeps its log in memory" in capsys.readouterr().err


def test_what_it_says_to_try_works_as_it_stands(server: Server):
    lines = [line for line in server.stdout.splitlines() if line.startswith("  curl ")]
    assert len(lines) == 3
    tried = subprocess.run(
        ["/bin/sh", "-e"], input="\n".join(lines), capture_output=True, text=True, timeout=60, check=False
    )
    assert tried.returncode == 0
    assert '"hello"' in tried.stdout


def test_answers_that_name_the_server_can_be_made_without_a_port(server: Server):
    assert get(server, "/brokers").status_code == get(server, "/v3/clusters").status_code == 200
    assert get(server, "/").json()["data"] is None or get(server, "/").status_code == 200


@pytest.mark.parametrize(("mode", "told"), [(0o600, "refused"), (0o777, "cut off")])
def test_another_user_is_kept_out_by_the_mode_and_by_what_the_system_says_of_a_client(
    server: Server, path: Path, mode: int, told: str
):
    """Of these only root can be another; the mode is what everybody sees."""
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    if os.getuid():
        return
    for folder in (path.parent, path.parent.parent):
        folder.chmod(0o755)
    path.chmod(mode)
    asked = run_as_nobody("import socket; os.setgroups([]); os.setgid(65534)", _ASKS, path.parent, path)
    assert (asked.stdout.strip(), asked.stderr) == (told, "")
    assert get(server, "/healthz").status_code == 200


def test_the_name_goes_with_the_server_and_one_that_a_killed_server_left_is_taken_over(path: Path):
    path.parent.mkdir()
    with serving(None, unix_socket=path) as killed:
        killed.kill()
    assert path.is_socket()
    with serving(None, unix_socket=path) as server:
        assert get(server, "/healthz").status_code == 200
        assert server.terminate() == 0
    assert not path.exists()


def test_a_server_takes_the_name_of_no_other_with_it(path: Path):
    path.parent.mkdir()
    with serving(None, unix_socket=path) as first:
        path.rename(path.with_name("first"))
        with serving(None, unix_socket=path) as second:
            assert first.terminate() == 0
            assert get(second, "/healthz").status_code == 200


@pytest.mark.parametrize("there", ["server", "file", "folder", "nothing"])
def test_a_name_that_cannot_be_had_is_refused_and_left_as_it_is(
    path: Path, there: str, capsys: pytest.CaptureFixture[str]
):
    says = {
        "server": "another server listens there",
        "file": "another file has this name",
        "folder": "another file has this name",
        "nothing": "No such file or directory",
    }
    if there != "nothing":
        path.parent.mkdir()
    if there == "file":
        path.write_text("mine")
    if there == "folder":
        path.mkdir()
    with socket.socket(socket.AF_UNIX) as other:
        if there == "server":
            other.bind(str(path))
            other.listen()
        assert main(["serve", "--memory", "--unix-socket", str(path)]) == 1
        err = capsys.readouterr().err
        assert says[there] in err
        assert "choose another with --unix-socket" in err
        assert path.exists() == (there != "nothing")


@pytest.mark.parametrize("given", ["x" * 104, "ü" * 52, "two\nlines"])
def test_a_path_that_does_not_fit_into_a_sockets_address_is_no_setting(given: str):
    with pytest.raises(UnusableSetting, match="a path of at most 103 bytes"):
        choose_settings({"unix_socket": given}, {})
