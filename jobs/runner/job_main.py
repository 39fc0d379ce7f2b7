"""Main program common to all jobs: command line, exit code, summary and messages.

It knows no tables, no server and no Spark.
"""

from __future__ import annotations

import argparse
import os
import re
import signal
import sys
import threading
import time
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import contextmanager
from typing import Any, Final, NoReturn

from delta_log.stores.place_arguments import add_place
from jobs.foundation.progress import Progress
from jobs.foundation.result import Exit, Summary, Unfinished, decide_exit, one_sentence
from jobs.foundation.tolerant_output import write_if_room

__all__ = ["DATA_VARIABLE", "JobParser", "add_options", "add_topics", "carry_out", "milliseconds", "say", "say_if_room"]

DATA_VARIABLE: Final = "LAKELOG_DATA"
_UNITS: Final = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


class JobParser(argparse.ArgumentParser):
    """Parser that reports wrong usage in one sentence. `missing` returns what the options lack, or an empty text."""

    missing: Callable[[argparse.Namespace], str] | None = None

    def parse_args(self, args: Any = None, namespace: Any = None) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride] - it is overloaded
        words: list[str] = list(sys.argv[1:] if args is None else args)
        found = super().parse_args([self._spelled(word) for word in words], namespace)
        if self.missing is not None and (said := self.missing(found)):
            self.error(said)
        return found

    def _spelled(self, word: str) -> str:
        """Spell an option with hyphens, as declared; the command line accepts underscores, too."""
        name, sign, value = word.partition("=")
        hyphened = name.replace("_", "-")
        return f"{hyphened}{sign}{value}" if hyphened in self._option_string_actions else word

    def _get_value(self, action: argparse.Action, arg_string: str) -> Any:
        found = super()._get_value(action, arg_string)
        same = [each for each in action.choices or () if str(each).replace("_", "-") == str(found).replace("_", "-")]
        return same[0] if same else found

    def error(self, message: str) -> NoReturn:
        self.exit(Exit.CALLED_WRONGLY, f"{self.prog}: {' '.join(message.split())}; see {self.prog} --help\n")


def milliseconds(text: str) -> int:
    """Parse a duration like 90s, 10m, 2h, 1d, 500ms."""
    found = re.fullmatch(r"(\d{1,12})(ms|s|m|h|d)", text)
    if found is None:
        raise argparse.ArgumentTypeError(f"{text!r} is no length of time, as 90s, 10m, 2h or 1d are")
    return int(found[1]) * _UNITS[found[2]]


def add_options(parser: argparse.ArgumentParser, job: str, *, spark: bool = True) -> None:
    parser.set_defaults(job=job)
    add_place(
        parser,
        os.environ,
        default=os.environ.get(DATA_VARIABLE) or None,
        text=f"the root, as `lakelog serve --data` has it (default: the variable {DATA_VARIABLE})",
    )
    parser.add_argument("--dry-run", action="store_true", help="print the plan that would be carried out, and end")
    if spark:
        parser.add_argument(
            "--master", metavar="URL", help="Spark's master where no session is there already (default: local[*])"
        )
    parser.add_argument("--debug", action="store_true", help="show the stack trace of an error")


def add_topics(parser: argparse.ArgumentParser) -> Any:
    """Add the options of topics, exactly one of them required; returns the group, to which others may be added."""
    chosen = parser.add_mutually_exclusive_group(required=True)
    chosen.add_argument("--topic", action="append", metavar="NAME", help="a topic to work on; may be given repeatedly")
    chosen.add_argument("--all", action="store_true", help="work on all topics")
    return chosen


def say(progress: Progress, lines: Iterable[object]) -> None:
    """Print lines to stdout, after wiping the progress line; Unfinished if stdout cannot be written."""
    unsaid = say_if_room(progress, lines)
    if unsaid is not None:
        raise Unfinished(f"stdout could not be written: {unsaid}")


def say_if_room(progress: Progress, lines: Iterable[object]) -> OSError | None:
    """Print lines to stdout; returns an error of writing rather than raising it."""
    text = "".join(f"{line}\n" for line in lines)
    if not text:
        return None
    progress.wipe()
    return write_if_room(sys.stdout, text)


def carry_out(
    summary: Summary, work: Callable[[], None], problems: Mapping[str, BaseException], *, debug: bool = False
) -> int:
    """Run `work`, and report its outcome; returns the exit code. `problems`: by topic, filled by `work`."""
    began = time.monotonic()
    stopped_by: BaseException | None = None
    try:
        with _told_to_end():
            work()
    except BrokenPipeError:
        _read_no_more()
        return Exit.INCOMPLETE
    except (Exception, KeyboardInterrupt) as error:
        if debug and not isinstance(error, KeyboardInterrupt):
            raise
        stopped_by = error
    code = decide_exit(problems, stopped_by)
    _report(summary, problems, stopped_by)
    summary.outcome, summary.seconds = code.name.lower(), round(time.monotonic() - began, 3)
    try:
        unsaid = write_if_room(sys.stdout, summary.to_json() + "\n")
        if unsaid is not None:
            write_if_room(sys.stderr, f"{summary.job}: the summary could not be written: {unsaid}\n")
    except BrokenPipeError:
        _read_no_more()  # the work is done, even if the output is not read
    return code


@contextmanager
def _told_to_end() -> Generator[None]:
    """Handle SIGTERM like Ctrl-C, unless it has a handler: by default it would end the process without a summary."""
    is_main = threading.current_thread() is threading.main_thread()
    if not is_main or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        yield
        return
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _read_no_more() -> None:
    """Redirect stdout to null, as its reader is gone: Python's flush at exit must not report it again."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _report(summary: Summary, problems: Mapping[str, BaseException], stopped_by: BaseException | None) -> None:
    """Report errors on stderr, for people; the summary has them for programs."""
    for name in problems:
        write_if_room(sys.stderr, f"{summary.job} of {name}: {summary.errors[name]}\n")
    if stopped_by is not None:
        summary.error = "interrupted" if isinstance(stopped_by, KeyboardInterrupt) else one_sentence(stopped_by)
        write_if_room(sys.stderr, f"{summary.job}: {summary.error}\n")
