"""The processor time of small requests, beside another revision of this project."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Final, Self
from urllib.parse import urlsplit

from benchmarks.group_members import V2
from benchmarks.http_bodies import BINARY
from benchmarks.http_reader import field_of
from benchmarks.http_servers import PROJECT, Asker, ServerProcess, serve_options
from benchmarks.rows import Param, Row, beside, over_turns
from benchmarks.sizes import Size

#: A name that git knows, of the revision beside which this tree is measured.
BESIDE: Final = "BENCH_BESIDE"
_TOPIC: Final = "orders"
_MEMBER: Final = "/consumers/billing/instances/one"
_BLOCKS: Final = 8
_MOST_MORE_US: Final = 1.0
_NS_PER_US: Final = 1_000


def run(place: Path, size: Size) -> Iterator[Row]:
    """A server of this tree and one of another revision, which `BENCH_BESIDE` names (`HEAD` unless told), in turn.

    `http-revisions`: microseconds of processor time that the loop's thread takes for one request over one connection:
    one record produced, a fetch of one record, a poll that finds nothing, a commit. Blocks of both servers alternate;
    `µs more` is the median of the differences of neighbours. It is read from Linux's /proc and needs a git checkout.
    """
    beside_name = os.environ.get(BESIDE, "HEAD")
    other = place / "other"
    if (reason := _export(beside_name, other)) is not None:
        yield Row(name="http-revisions", value=0, unit="µs", note=reason)
        return
    with (
        ServerProcess(_serve_from(PROJECT, place / "root"), place / "server.log") as server,
        ServerProcess(_serve_from(other, place / "other-root"), place / "other.log") as before,
        _Client(server) as ours,
        _Client(before) as theirs,
    ):
        for name in ours.requests:
            taken, bases = _alternate(ours, theirs, name, size)
            params: dict[str, Param] = {"request": name, "beside": beside_name}
            row = beside(over_turns(taken, "µs", name="http-revisions", params=params), "CPU before", taken, bases)
            more = median(one - base for one, base in zip(taken, bases, strict=True))
            row.also["µs more"] = more
            row.target, row.met = f"{_MOST_MORE_US:g} µs more at most", more <= _MOST_MORE_US
            yield row


def _export(revision: str, place: Path) -> str | None:
    """Unpack a revision into a folder; the reason where that cannot be done."""
    if not Path("/proc/self/schedstat").exists():
        return "the processor time of a thread is read from Linux's /proc, which is not here"
    archive = subprocess.run(
        ["git", "archive", "--format=tar", revision], cwd=PROJECT, capture_output=True, check=False
    )
    if archive.returncode:
        return f"git has no revision {revision} here: {archive.stderr.decode(errors='replace').strip()}"
    place.mkdir()
    subprocess.run(["tar", "-x", "-C", str(place)], input=archive.stdout, check=True)
    return None


def _serve_from(tree: Path, root: Path) -> Sequence[str]:
    """`lakelog serve` of the project that lies in that folder."""
    program = "import sys; sys.path.insert(0, sys.argv.pop(1)); from lakelog.__main__ import main; sys.exit(main())"
    return (sys.executable, "-c", program, str(tree), "serve", *serve_options(root))


def _alternate(ours: _Client, theirs: _Client, name: str, size: Size) -> tuple[list[float], list[float]]:
    """Microseconds a request, of blocks in turn; the first block of each is not counted, as everything is new then."""
    count = max(20, int(size.singles * 5))
    for client in (ours, theirs):
        client.time_block(name, count)
    taken: list[float] = []
    bases: list[float] = []
    for block in range(size.turns * _BLOCKS):
        for client, times in ((ours, taken), (theirs, bases))[:: 1 if block % 2 else -1]:
            times.append(client.time_block(name, count))
    return taken, bases


@dataclass(slots=True)
class _Loop:
    """The thread of a process that runs its loop."""

    pid: int

    def cpu_ns(self) -> int:
        return int(Path(f"/proc/{self.pid}/task/{self.pid}/schedstat").read_bytes().split()[0])


class _Client:
    """One connection to one server, with all that is asked of it again and again."""

    def __init__(self, server: ServerProcess) -> None:
        self._loop = _Loop(server.pid)
        self._at = urlsplit(server.url)
        with Asker(server.url) as asker:
            asker.create_topic(_TOPIC, 1)
        self.requests: Mapping[str, bytes] = {
            "produce": self._request("POST", f"/topics/{_TOPIC}", {"records": [{"value": "eA=="}]}, BINARY),
            "fetch": self._request("GET", f"/topics/{_TOPIC}/partitions/0/records?offset=0&max_records=1"),
            "poll": self._request("GET", f"{_MEMBER}/records?timeout=0&max_bytes=1000", accept=BINARY),
            "commit": self._request("POST", f"{_MEMBER}/offsets", _COMMITTED, V2),
        }

    def __enter__(self) -> Self:
        self._socket = socket.create_connection((str(self._at.hostname), self._at.port or 80), timeout=60)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._answers = self._socket.makefile("rb")
        # Sessions outlive the longest run, as this member is heard of in some blocks alone.
        lasting = {"session.timeout.ms": "600000", "max.poll.interval.ms": "600000"}
        self._ask(self.requests["produce"])
        self._ask(self._request("POST", "/consumers/billing", _INSTANCE | lasting, V2))
        self._ask(self._request("POST", f"{_MEMBER}/subscription", {"topics": [_TOPIC]}, V2))
        self._ask(self.requests["poll"])
        return self

    def __exit__(self, *_: object) -> None:
        self._answers.close()
        self._socket.close()

    def time_block(self, name: str, count: int) -> float:
        """Microseconds of the loop's thread for each of so many requests."""
        request = self.requests[name]
        if name == "poll":
            self._ask(self._request("POST", f"{_MEMBER}/positions/end", _PARTITION, V2))
        began = self._loop.cpu_ns()
        for _ in range(count):
            self._ask(request)
        return (self._loop.cpu_ns() - began) / count / _NS_PER_US

    def _ask(self, request: bytes) -> None:
        self._socket.sendall(request)
        head = b""
        while not head.endswith(b"\r\n\r\n"):
            line = self._answers.readline()
            if not line:
                raise RuntimeError("the server closed the connection")
            head += line
        if head[9:10] != b"2":
            raise RuntimeError(f"the server answered {head!r} to {request!r}")
        if length := field_of(head, b"content-length"):
            self._answers.read(int(length))
            return
        while size := int(self._answers.readline(), 16) if b"chunked" in head else 0:
            self._answers.read(size + 2)
        if b"chunked" in head:
            self._answers.readline()

    def _request(
        self, method: str, path: str, body: object = None, content_type: str = "", accept: str = "application/json"
    ) -> bytes:
        data = b"" if body is None else json.dumps(body).encode()
        typed = f"Content-Type: {content_type}\r\n" if content_type else ""
        head = f"{method} {path} HTTP/1.1\r\nHost: {self._at.netloc}\r\nAccept: {accept}\r\n{typed}"
        return f"{head}Content-Length: {len(data)}\r\n\r\n".encode() + data


_INSTANCE: Final = {"name": "one", "auto.commit.enable": "false", "auto.offset.reset": "earliest"}
_COMMITTED: Final = {"offsets": [{"topic": _TOPIC, "partition": 0, "offset": 0}]}
_PARTITION: Final = {"partitions": [{"topic": _TOPIC, "partition": 0}]}
