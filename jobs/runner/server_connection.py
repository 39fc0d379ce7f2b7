"""Connection of a job to a server: the named one, or one of its own for as long as the job runs.

All appends to a root go through its owner. With no server named, the job starts one, as a separate process that takes
the root, is refused if the root has an owner, and ends with the job, however that ends. It listens on a Unix socket in
a folder that only the job's user may enter: no other user of the machine, and no web page, reaches it. This module
knows the command line of `lakelog serve`, and not what the job does with the server. Other programs may use it, too.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import IO, Final

from delta_log.model.errors import InvalidRequest, NotAvailable, RootInUse
from delta_log.root.root import as_root, open_root, read_topic_defaults
from jobs.runner.socket_folder import socket_folder

__all__ = ["OwnServer", "check_url", "plan_command", "reached", "running_server"]

_URL: Final = re.compile(r"https?://[^\s,]+|http\+unix://%2F[^\s,/]+/?", re.IGNORECASE)
_LISTENS: Final = re.compile(r"listens on (http\S*://\S+)")
_READY: Final = "ready"
#: Packages that a server needs; `lakelog[server]` installs them.
_PARTS: Final = ("lakelog", "fastapi", "uvicorn", "deltalake")
_STOP_WITHIN_MS: Final = 30_000
_KILL_AFTER_S: Final = 60.0
_NEVER_MS: Final = 2**63 - 1


@contextmanager
def reached(root: str | None, server: str | None) -> Generator[str]:
    """Yield the URL of a server; a started one runs until the block ends.

    InvalidRequest if neither a server nor a root is named, NotARoot if there is no root, RootInUse if another process
    owns it, and NotAvailable if a server cannot be started.
    """
    if server is not None:
        yield check_url(server)
        return
    if not root:
        raise InvalidRequest("neither a server is named, by --server, nor a root, by --data")
    missing = [part for part in _PARTS if find_spec(part) is None]
    if missing:
        raise NotAvailable(
            f"no server is named by --server, and for one of its own the job needs what lakelog[server] brings: "
            f"{', '.join(missing)}"
        )
    place = _look_at(root)
    with (
        socket_folder() as unix_socket,
        tempfile.TemporaryFile("w+") as log,
        running_server(plan_command(*place, unix_socket), log, "the job's own server") as own,
    ):
        yield own.url


def check_url(url: str) -> str:
    """Check the address of a server; returns it without a trailing slash."""
    if _URL.fullmatch(url) is None:
        raise InvalidRequest(f"--server {url!r} is not the http:// or https:// address of a server")
    return url.rstrip("/")


def plan_command(location: str, topic_defaults: Mapping[str, object], unix_socket: Path) -> list[str]:
    """Command line of a job's server: for this user alone, and with the topic defaults of the last owner.

    It lets no offsets of groups expire: their retention is up to the operator's servers.
    """
    defaults = {f"--topic-{name.replace('.', '-')}": value for name, value in topic_defaults.items()}
    settings = {
        "--data": location,
        "--memory": False,
        "--unix-socket": str(unix_socket),
        "--log-level": "warning",
        "--access-log": "off",
        "--drain-timeout-ms": _STOP_WITHIN_MS,
        "--offsets-retention-ms": _NEVER_MS,
        **defaults,
    }
    given = [f"{name}={value if isinstance(value, str) else json.dumps(value)}" for name, value in settings.items()]
    return [sys.executable, "-m", "lakelog", "serve", "--stop-with-stdin", *given]


def _look_at(root: str) -> tuple[str, dict[str, object]]:
    """Location and topic defaults of a root. It is locked for a moment, so that a present owner is reported."""
    place = as_root(root)
    open_root(place, create=False)
    if not place.locks:
        raise InvalidRequest(
            f"nobody can tell whether {root} has a server, which this would replace: name it by --server"
        )
    try:
        place.hold()
    except RootInUse as error:
        raise RootInUse(error.root, error.owner, "name its server by --server, or stop that process") from None
    try:
        return place.store.location, read_topic_defaults(place.store)
    finally:
        place.let_go()


class OwnServer:
    """A started server; `ended` is its exit code if it has ended prematurely."""

    def __init__(self, url: str, process: subprocess.Popen[str]) -> None:
        self.url = url
        self._process = process

    @property
    def ended(self) -> int | None:
        return self._process.poll()


@contextmanager
def running_server(command: list[str], log: IO[str], whose: str) -> Generator[OwnServer]:
    """Run a server until the block ends; NotAvailable with the last line of its log if it does not start.

    It has its own process group, so that Ctrl-C in the terminal, meant for the program, does not stop the server first.
    """
    process = subprocess.Popen(  # noqa: S603 - this interpreter, with arguments built here
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True, process_group=0
    )
    try:
        yield OwnServer(_wait_until_ready(process, log, whose), process)
    finally:
        _stop(process)


def _wait_until_ready(process: subprocess.Popen[str], log: IO[str], whose: str) -> str:
    url = ""
    for line in process.stdout or ():
        found = _LISTENS.search(line)
        url = found[1] if found else url
        if line.startswith(_READY):
            return url
    process.wait()
    log.seek(0)
    said = [line.strip() for line in log if line.strip()] or [f"it ended with {process.returncode}"]
    raise NotAvailable(f"{whose} did not start: {said[-1]}")


def _stop(process: subprocess.Popen[str]) -> None:
    """Stop a server by closing its stdin; records that it does not commit to tables in time remain in the journal."""
    for stream in (process.stdin, process.stdout):
        if stream is not None:
            stream.close()
    try:
        process.wait(_KILL_AFTER_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
