"""`lakelog demo`: a server of its own, producers and a group at work on it, and every second how they are doing.

The log is in a temporary directory, in memory if the system has such a file system: so SQL in another process can read
it. The module knows the order of start and end; producers and consumers are in `load`.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import logging
import shutil
import signal
import sys
import tempfile
import threading
from collections.abc import Generator
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Final

from lakelog.cli.demo.output import HEADINGS, Sample, make_sample, show_beginning, show_end, show_sample
from lakelog.cli.kit.arguments import add_output, positive
from lakelog.cli.kit.exit_codes import NOT_NOW, Failure
from lakelog.cli.kit.output import as_json

if TYPE_CHECKING:
    from jobs.runner.server_connection import OwnServer
    from lakelog.cli.demo.load import Load

#: A directory in memory, on systems that have one.
_IN_MEMORY: Final = Path("/dev/shm")  # noqa: S108 - a private directory is made in it
_ENOUGH: Final = 512 * 1024 * 1024
_PREFIX: Final = "lakelog-demo-"
#: The lock file, held while the demo runs.
_OWNER: Final = "owner"


def configure(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Start a server in a temporary place, in memory where the system has one (/dev/shm), have producers and a "
        "consumer group work on it, and show rates and lag every second until Ctrl-C; and the SQL to try meanwhile. "
        "Nothing is left behind."
    )
    parser.add_argument("--seconds", type=positive, metavar="N", help="end after so long (default: at Ctrl-C)")
    parser.add_argument("--rate", type=positive, default=300, metavar="N", help="records a second (default 300)")
    add_output(parser)


def run(args: argparse.Namespace) -> int:
    from jobs.runner.server_connection import plan_command, running_server
    from lakelog.cli.demo.load import Load

    # The demo itself reports what the clients would warn of.
    logging.getLogger("lakelog").addHandler(logging.NullHandler())
    with (
        _stopping(),
        _folder() as folder,
        tempfile.TemporaryFile("w+") as log,
        running_server(plan_command(str(folder / "data"), {}, folder / "server"), log, "the demo's server") as server,
    ):
        with Load(server.url, args.rate) as load:
            if args.output == "text":
                print(show_beginning(server.url, str(folder), in_memory=_IN_MEMORY in folder.parents), flush=True)
            with contextlib.suppress(KeyboardInterrupt):
                _watch(args, server, load)
        if args.output == "text":
            print(show_end(load.counts), flush=True)
    return 0


def _watch(args: argparse.Namespace, server: OwnServer, load: Load) -> None:
    show = _Showing(args.output)
    began = monotonic()
    before, second = load.counts, 0
    with contextlib.closing(show):
        while args.seconds is None or second < args.seconds:
            second += 1
            load.failed.wait(max(0.0, began + second - monotonic()))
            _check(server, load)
            now = load.counts
            show(make_sample(second, before, now, load.look()))
            before = now


def _check(server: OwnServer, load: Load) -> None:
    if server.ended is not None:
        raise Failure(f"the demo's server ended with {server.ended}", "start the demo again", exit_code=NOT_NOW)
    if load.failed.is_set():
        raise Failure(f"the demo stopped: {load.why}", "start it again", exit_code=NOT_NOW)


class _Showing:
    """Prints a line each second; on a terminal it overwrites one line."""

    def __init__(self, form: str) -> None:
        self._form = form
        self._live = form == "text" and sys.stdout.isatty()
        if form == "text":
            print(HEADINGS, flush=True)

    def __call__(self, sample: Sample) -> None:
        if self._form == "json":
            print(as_json(sample._asdict()), flush=True)
        else:
            print(f"\r\033[K{show_sample(sample)}" if self._live else show_sample(sample), end=self._end, flush=True)

    @property
    def _end(self) -> str:
        return "" if self._live else "\n"

    def close(self) -> None:
        if self._live:
            print(flush=True)


@contextlib.contextmanager
def _folder() -> Generator[Path]:
    place = _IN_MEMORY
    if not place.is_dir() or shutil.disk_usage(place).free < _ENOUGH:
        place = Path(tempfile.gettempdir())
    for each in (_IN_MEMORY, Path(tempfile.gettempdir())):
        _tidy(each)
    made = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=place))
    # The system releases the lock however this process ends. The file gets its name once it is locked.
    with (made / "new").open("w") as owner:
        fcntl.flock(owner, fcntl.LOCK_EX)
        (made / "new").rename(made / _OWNER)
        try:
            yield made
        finally:
            shutil.rmtree(made, ignore_errors=True)


def _tidy(place: Path) -> None:
    """Remove directories of killed demos: those whose lock is free."""
    for left in place.glob(f"{_PREFIX}*/{_OWNER}"):
        with contextlib.suppress(OSError), left.open() as owner:
            fcntl.flock(owner, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(left.parent, ignore_errors=True)


@contextlib.contextmanager
def _stopping() -> Generator[None]:
    """Handle SIGTERM like Ctrl-C, so that nothing is left behind."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
