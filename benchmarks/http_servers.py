"""Servers in processes of their own, and the few questions about topics that a benchmark asks of one."""

from __future__ import annotations

import http.client
import json
import re
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self
from urllib.parse import quote, urlsplit

from benchmarks.topics import PARTITIONS

PROJECT: Final = Path(__file__).resolve().parents[1]
ECHO: Final = (sys.executable, "-m", "benchmarks.http_echo")
_LISTENS: Final = re.compile(r"listens on (http://\S+)")
_STOP_S: Final = 20
_SETTLE_S: Final = 20
_LINES_SHOWN: Final = 20
_OK: Final = 200
_CREATED: Final = 201
_NO_CONTENT: Final = 204
_NOT_FOUND: Final = 404


def lakelog_command(root: Path, *options: str) -> tuple[str, ...]:
    return (sys.executable, "-m", "lakelog", "serve", *serve_options(root), *options)


def serve_options(root: Path) -> tuple[str, ...]:
    return ("--port", "0", "--data", str(root), "--log-level", "warning")


class ServerProcess:
    """Started by `with`, and stopped by SIGTERM behind it; `url` is what it says that it listens on."""

    def __init__(self, command: Sequence[str], log: Path) -> None:
        self._log = log
        with log.open("wb") as errors:
            self._process = subprocess.Popen(command, cwd=PROJECT, stdout=subprocess.PIPE, stderr=errors, text=True)
        try:
            self.url = self._wait_ready()
        except BaseException:
            self.kill()
            raise

    @property
    def pid(self) -> int:
        return self._process.pid

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            self.kill()
            return
        self._process.send_signal(signal.SIGTERM)
        try:
            self._process.communicate(timeout=_STOP_S)
        except subprocess.TimeoutExpired:
            self.kill()
        if self._process.returncode not in (0, -signal.SIGTERM):  # stock uvicorn ends by the signal
            raise RuntimeError(self._say(f"the server stopped with {self._process.returncode}"))

    def kill(self) -> None:
        self._process.kill()
        self._process.communicate()

    def _wait_ready(self) -> str:
        url = ""
        for line in self._process.stdout or ():
            if found := _LISTENS.search(line):
                url = found[1]
            if line.startswith("ready"):
                return url
        raise RuntimeError(self._say("the server did not start"))

    def _say(self, what: str) -> str:
        lines = self._log.read_text(errors="replace").splitlines()[-_LINES_SHOWN:]
        return "\n".join([what, *lines])


class Asker:
    """Calls that are not measured, over one connection."""

    def __init__(self, url: str) -> None:
        self._connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=60)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._connection.close()

    def ask(
        self, method: str, path: str, body: bytes | None = None, headers: Mapping[str, str] | None = None
    ) -> tuple[int, bytes]:
        self._connection.request(method, path, body, dict(headers or {}))
        answer = self._connection.getresponse()
        return answer.status, answer.read()

    def create_topic(self, topic: str, partitions: int = PARTITIONS) -> None:
        body = json.dumps({"partitions": partitions}).encode()
        headers = {"Content-Type": "application/json"}
        _expect(self.ask("PUT", f"/topics/{quote(topic)}", body, headers), _CREATED, _OK)

    def delete_topic(self, topic: str) -> None:
        _expect(self.ask("DELETE", f"/topics/{quote(topic)}"), _NO_CONTENT)

    def end_offsets(self, topic: str) -> list[int]:
        """Of every partition, until there is no such partition."""
        ends: list[int] = []
        while True:
            status, body = self.ask("GET", f"/topics/{quote(topic)}/partitions/{len(ends)}/offsets")
            if status == _NOT_FOUND:
                return ends
            _expect((status, body), _OK)
            ends.append(json.loads(body)["end_offset"])

    def settled_count(self, topic: str) -> int:
        """How many records were ever stored, once what a generator left behind is stored too."""
        deadline = time.monotonic() + _SETTLE_S
        before, count = -1, sum(self.end_offsets(topic))
        while count != before:
            if time.monotonic() > deadline:
                raise TimeoutError(f"{topic} is still growing after {_SETTLE_S} s")
            time.sleep(0.05)
            before, count = count, sum(self.end_offsets(topic))
        return count

    def wait_tabled(self, topic: str) -> None:
        """Until everything is in the table; costs one record in each partition."""
        records = [{"value": "", "partition": place} for place in range(len(self.end_offsets(topic)))]
        body = json.dumps({"records": records}).encode()
        headers = {"Content-Type": "application/vnd.kafka.binary.v2+json"}
        _expect(self.ask("POST", f"/topics/{quote(topic)}?wait=table", body, headers), _OK)

    def metric(self, name: str) -> float:
        """A metric without labels."""
        _, body = _expect(self.ask("GET", "/metrics"), _OK)
        return float(next(line.split()[1] for line in body.decode().splitlines() if line.startswith(f"{name} ")))


def _expect(answer: tuple[int, bytes], *statuses: int) -> tuple[int, Any]:
    if answer[0] not in statuses:
        raise RuntimeError(f"the server answered {answer[0]}: {answer[1][:500]!r}")
    return answer
