"""A real S3-compatible server in a process of its own, on a free port of this machine.

    with s3_serving(folder, find_server()) as server:
        ObjectStore(server.root("a"), server.options)

Where it is not built, tests that need it are skipped.
"""

from __future__ import annotations

import contextlib
import http.client
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Generator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import IO

import obstore
from obstore.store import S3Store

from tests.architecture.project_files import ROOT

BUCKET = "lakelog-tests"
DEADLINE_S = 60.0
#: So many ports may be taken by others before ours is bound.
TRIES = 5
Process = subprocess.Popen[bytes]
ACCESS, SECRET = "tests", "not-a-secret"
MISSING = "there is no S3-compatible server: `make s3` builds one, which needs Go"


@dataclass(frozen=True)
class S3Server:
    """`folder` is where its objects lie as files."""

    address: tuple[str, int]
    folder: Path

    @property
    def endpoint(self) -> str:
        return f"http://{self.address[0]}:{self.address[1]}"

    @property
    def options(self) -> dict[str, str]:
        return options_for(self.endpoint)

    def root(self, prefix: str) -> str:
        return f"s3://{BUCKET}/{prefix}"

    def make_bucket(self, name: str) -> None:
        with urllib.request.urlopen(
            urllib.request.Request(self._signed_url(name), method="PUT"), timeout=DEADLINE_S
        ) as answer:
            assert answer.status == 200

    def _signed_url(self, bucket: str) -> str:
        options = {name: value for name, value in self.options.items() if name != "aws_allow_http"}
        store = S3Store(bucket, config=options, client_options={"allow_http": True})
        return obstore.sign(store, "PUT", "", timedelta(seconds=100))


def options_for(endpoint: str) -> dict[str, str]:
    return {
        "aws_endpoint": endpoint,
        "aws_allow_http": "true",
        "aws_region": "us-east-1",
        "aws_access_key_id": ACCESS,
        "aws_secret_access_key": SECRET,
    }


def as_options(options: Mapping[str, str]) -> list[str]:
    """For a command line."""
    return [f"--store-option={name}={value}" for name, value in options.items()]


def find_server() -> Path | None:
    found = subprocess.run(
        ["sed", "-n", "s/^version=//p", str(ROOT / "tools" / "ensure-s3")], capture_output=True, text=True, check=True
    )
    server = ROOT / ".cache" / "s3" / f"versitygw-{found.stdout.strip()}"
    return server if server.exists() else None


@contextlib.contextmanager
def s3_serving(folder: Path, program: Path) -> Generator[S3Server]:
    """On another port where somebody took the one that was free a moment ago."""
    with (folder.parent / f"{folder.name}.log").open("wb") as said, contextlib.ExitStack() as stack:
        for _ in range(TRIES):
            address = _free_address()
            process = stack.enter_context(_running(program, address, folder, said))
            server = S3Server(address, folder / BUCKET)
            if _answers(server, process):
                yield server
                return
        raise AssertionError(f"no S3-compatible server came up: {said.name}")


def _free_address() -> tuple[str, int]:
    with socket.create_server(("127.0.0.1", 0)) as free:
        return ("127.0.0.1", free.getsockname()[1])


@contextlib.contextmanager
def _running(program: Path, address: tuple[str, int], folder: Path, said: IO[bytes]) -> Generator[Process]:
    command = [str(program), "--access", ACCESS, "--secret", SECRET, "--port", f"{address[0]}:{address[1]}"]
    process = subprocess.Popen(
        [*command, "--quiet", "--keep-alive", "posix", str(folder)],
        stdin=subprocess.DEVNULL,
        stdout=said,
        stderr=subprocess.STDOUT,
    )
    try:
        yield process
    finally:
        process.kill()  # told to stop, it would wait for connections that nobody uses any more
        process.wait(DEADLINE_S)


def _answers(server: S3Server, process: Process) -> bool:
    """False where the process has ended: then whoever answers there is somebody else."""
    deadline = time.monotonic() + DEADLINE_S
    while process.poll() is None:
        try:
            server.make_bucket(BUCKET)
        except (urllib.error.URLError, OSError, http.client.HTTPException):
            late = time.monotonic() > deadline and process.poll() is None
            assert not late, "the S3-compatible server did not answer"
            time.sleep(0.02)
        else:
            return process.poll() is None
    return False
