"""Base of jobs that are streaming queries: their options, the server, start and end.

A run is ended by Ctrl-C, SIGTERM or its caller's event: it finishes the batch in hand, and a second signal ends it at
once. A signal also sets the caller's event. It knows no job, and nothing of what is read or written.
"""

from __future__ import annotations

import argparse
import signal
import threading
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import FrameType
from typing import TYPE_CHECKING, Any, Final

from delta_log.model.errors import InvalidRequest, LakelogError, NotAvailable
from delta_log.model.store_location import options_of, show_options
from delta_log.runtime.syscalls import Probe, no_probe
from delta_log.stores.place_arguments import OPTIONS_VARIABLE
from jobs.foundation.progress import Progress
from jobs.foundation.result import Summary, Unfinished
from jobs.runner.job_main import DATA_VARIABLE, JobParser, add_options, add_topics, carry_out, milliseconds, say
from jobs.runner.server_connection import reached
from jobs.spark.engine import open_session
from jobs.spark.jvm import SparkGone, is_end_of_java
from jobs.spark.shared_session import OpenSession
from jobs.spark.versions import check_spark, find_spark

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter

__all__ = ["StreamJob", "StreamRun", "build_parser", "run_stream_job"]

_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)


@dataclass(slots=True)
class StreamRun:
    """Run of a job. `url`: that of a server; `stopping`: set when the run is to end soon."""

    options: argparse.Namespace
    url: str
    progress: Progress
    summary: Summary
    stopping: threading.Event
    probe: Probe
    _session: OpenSession | None = field(default=None)

    @property
    def dry_run(self) -> bool:
        return self.options.dry_run

    @property
    def spark(self) -> SparkSession:
        """Spark session, started when first needed, with the format `lakelog` registered."""
        if self._session is None:
            self.progress.show("starting Spark")
            self._session = open_session(f"lakelog {self.options.job}", self.options.master)
            from jobs.source.source import register  # noqa: PLC0415 - without Spark there is nothing to register

            if given := options_of(self.options.data):
                # Not as options of the source: those are shown in plans.
                self._session.spark.sparkContext.environment[OPTIONS_VARIABLE] = show_options(given)
            register(self._session.spark)
            self.progress.wipe()
        return self._session.spark

    @property
    def place(self) -> dict[str, str]:
        """Options of the source for where it reads: the server, and the tables if the root is known."""
        path = {"path": self.options.data} if self.options.data else {}
        return {**path, "server": self.url}

    def limits(self) -> dict[str, str]:
        """Options of the source for how much it reads at a time."""
        most = self.options.max_offsets
        return {} if most is None else {"maxOffsetsPerTrigger": str(most)}

    def triggered(self, frame: DataFrame) -> DataStreamWriter:
        """Writer of a query over a frame, with the requested trigger."""
        if self.options.available_now:
            return frame.writeStream.trigger(availableNow=True)
        return frame.writeStream.trigger(processingTime=f"{self.options.interval} milliseconds")

    def say(self, lines: Iterable[object]) -> None:
        say(self.progress, lines)

    def add(self, topic: str, counts: Mapping[str, int]) -> None:
        """Add to the counts of a topic in the summary."""
        before = self.summary.topics.get(topic, {})
        self.summary.topics[topic] = {name: before.get(name, 0) + more for name, more in counts.items()}

    def close(self) -> None:
        self.progress.wipe()
        if self._session is not None:
            self._session.close()


@dataclass(frozen=True, slots=True)
class StreamJob:
    """A streaming job. `check` checks the options before any connection; `work` does the rest, or plans it (dry run).

    `counts`: meaning of each count that `work` adds to topics.
    """

    name: str
    summary: str
    work: Callable[[StreamRun], None]
    counts: Mapping[str, str]
    configure: Callable[[argparse.ArgumentParser], None] = lambda _: None
    check: Callable[[argparse.Namespace], None] = lambda _: None


def build_parser(job: StreamJob) -> argparse.ArgumentParser:
    parser = JobParser(prog=f"python -m jobs.{job.name}", description=job.summary, allow_abbrev=False)
    parser.missing = _missing
    add_options(parser, job.name)
    parser.add_argument("--server", metavar="URL", help="the server of the root (default: one of the job's own)")
    chosen = add_topics(parser)
    chosen.add_argument("--pattern", metavar="RE", help="work on the topics whose whole name matches, as they come")
    often = parser.add_mutually_exclusive_group()
    often.add_argument("--available-now", action="store_true", help="work on what is there by now, and end")
    often.add_argument(
        "--interval",
        type=milliseconds,
        default=0,
        metavar="TIME",
        help="begin a batch so often at the most, as 500ms, 5s or 1m (default: as soon as there is something)",
    )
    parser.add_argument("--max-offsets", type=_whole, metavar="N", help="read so many offsets in a batch at the most")
    job.configure(parser)
    return parser


def _missing(options: argparse.Namespace) -> str:
    named = options.data or options.server
    return "" if named else f"--server must name a server, or --data, or the variable {DATA_VARIABLE}, the root"


def run_stream_job(
    job: StreamJob,
    argv: Sequence[str] | None = None,
    *,
    stopping: threading.Event | None = None,
    probe: Probe = no_probe,
) -> int:
    """Run a job; returns its exit code. Wrong options end the process with 2, as in argparse.

    Setting `stopping` ends the run after the batch in hand; a signal sets it, too.
    """
    parser = build_parser(job)
    options = parser.parse_args(argv)
    summary = Summary(job.name, options.data or options.server, "spark", options.dry_run)

    def work() -> None:
        job.check(options)
        with (
            _heeding(stopping or threading.Event()) as (event, interrupted),
            reached(options.data, options.server) as url,
        ):
            _work(job, StreamRun(options, url, Progress(), summary, event, probe))
        if interrupted.is_set():
            raise KeyboardInterrupt

    return carry_out(summary, work, {}, debug=options.debug)


def _work(job: StreamJob, run: StreamRun) -> None:
    """Run the work, and map errors of the source to those of a run."""
    check_spark(find_spark())
    from jobs.source.errors import InvalidOption, NotReadable, SourceError, UnknownTopics  # noqa: PLC0415 - needs Spark

    try:
        try:
            job.work(run)
        except (InvalidOption, UnknownTopics) as error:
            raise InvalidRequest(str(error)) from error
        except NotReadable as error:
            raise NotAvailable(str(error)) from error
        except SourceError as error:
            raise Unfinished(str(error)) from error
    except LakelogError as error:
        # Something was changed, so the error must not imply the opposite.
        if run.summary.topics and not run.dry_run:
            raise Unfinished(str(error)) from error
        raise
    except Exception as error:
        if is_end_of_java(error):
            raise SparkGone from error
        raise
    finally:
        run.close()


@contextmanager
def _heeding(stopping: threading.Event) -> Generator[tuple[threading.Event, threading.Event]]:
    """Let signals set the event; the second event tells if it was Ctrl-C. Only the main thread can handle signals."""
    interrupted = threading.Event()

    def heed(number: int, _: FrameType | None) -> None:
        if stopping.is_set():
            raise KeyboardInterrupt
        if number == signal.SIGINT:
            interrupted.set()
        stopping.set()

    if threading.current_thread() is not threading.main_thread():
        yield stopping, interrupted
        return
    before: dict[int, Any] = {number: signal.signal(number, heed) for number in _SIGNALS}
    try:
        yield stopping, interrupted
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _whole(text: str) -> int:
    if not (text.isascii() and text.isdigit()) or not int(text):
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of 1 or more")
    return int(text)
