"""What every job has in common, whatever it works on: how it is called, how it ends, and what it says of that.

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
    """Says in one sentence how it was called wrongly. `missing` says what the options lack, if they do."""

    missing: Callable[[argparse.Namespace], str] | None = None

    def parse_args(self, args: Any = None, namespace: Any = None) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride] - it is overloaded
        words: list[str] = list(sys.argv[1:] if args is None else args)
        found = super().parse_args([self._spelled(word) for word in words], namespace)
        if self.missing is not None and (said := self.missing(found)):
            self.error(said)
        return found

    def _spelled(self, word: str) -> str:
        """Options with hyphens, as they are declared; the command line takes both of all its words."""
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
    """A length of time as a person writes it: 90s, 10m, 2h, 1d, 500ms."""
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
    """Exactly one of these must be given; answers what others may be added to."""
    chosen = parser.add_mutually_exclusive_group(required=True)
    chosen.add_argument("--topic", action="append", metavar="NAME", help="a topic to work on; may be given repeatedly")
    chosen.add_argument("--all", action="store_true", help="work on all topics")
    return chosen


def say(progress: Progress, lines: Iterable[object]) -> None:
    """To whoever reads stdout, past what is shown of progress; Unfinished where there is no room for it."""
    unsaid = say_if_room(progress, lines)
    if unsaid is not None:
        raise Unfinished(f"stdout could not be written: {unsaid}")


def say_if_room(progress: Progress, lines: Iterable[object]) -> OSError | None:
    """The same, where it is no reason to stop."""
    text = "".join(f"{line}\n" for line in lines)
    if not text:
        return None
    progress.wipe()
    return write_if_room(sys.stdout, text)


def carry_out(
    summary: Summary, work: Callable[[], None], problems: Mapping[str, BaseException], *, debug: bool = False
) -> int:
    """Work, and say what came of it; returns the exit code. `problems` are of single topics, as `work` found them."""
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
        _read_no_more()  # what was done is done, whoever heeds it
    return code


@contextmanager
def _told_to_end() -> Generator[None]:
    """SIGTERM is heeded as Ctrl-C is, unless somebody heeds it already: by itself it would end us without a word."""
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
    """The reader of our output went away; Python's own flush at exit must not complain about it again."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _report(summary: Summary, problems: Mapping[str, BaseException], stopped_by: BaseException | None) -> None:
    """To people, on stderr; the summary says it to machines."""
    for name in problems:
        write_if_room(sys.stderr, f"{summary.job} of {name}: {summary.errors[name]}\n")
    if stopped_by is not None:
        summary.error = "interrupted" if isinstance(stopped_by, KeyboardInterrupt) else one_sentence(stopped_by)
        write_if_room(sys.stderr, f"{summary.job}: {summary.error}\n")
