"""Common steps of an operator's commands: show a plan, ask, show a report, return a verdict."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Mapping
from types import TracebackType
from typing import IO, Any, Final, Self

from lakelog.cli.kit.exit_codes import CALLED_WRONGLY, DONE, NOT_AS_IT_SHOULD_BE, Failure
from lakelog.cli.kit.output import as_json
from lakelog.cli.kit.progress import room_on

__all__ = ["TAKES_OVER", "Watching", "add_dry_run", "add_yes", "confirm", "end_with", "tell", "tell_plan"]

#: Step of a plan for a root in a bucket, where a running server cannot be locked out.
TAKES_OVER: Final = "take the root over: a server that still runs on it, in its bucket, stops writing"


def add_dry_run(parser: argparse.ArgumentParser, text: str) -> None:
    parser.add_argument("--dry-run", action="store_true", help=text)


def add_yes(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--yes", action="store_true", help="do it without asking; where nobody can be asked, it is needed"
    )


def confirm(args: argparse.Namespace, question: str) -> None:
    """Ask for confirmation at a terminal; raises Failure if the answer is no, or there is no terminal."""
    if args.yes:
        return
    if sys.stdin is None or not (sys.stdin.isatty() and sys.stderr.isatty()):  # pyright: ignore[reportUnnecessaryComparison] - closed, it is None
        raise Failure("nothing was done", "say --yes to have this plan carried out", exit_code=CALLED_WRONGLY)
    print(f"{question} [y/N] ", end="", file=sys.stderr, flush=True)
    if sys.stdin.readline().strip().lower() not in {"y", "yes"}:
        raise Failure("nothing was done", "say yes to have this plan carried out", exit_code=CALLED_WRONGLY)


def tell_plan(args: argparse.Namespace, lines: Iterable[str]) -> None:
    """Print the plan; on stderr if the output is one object of JSON."""
    out = sys.stderr if args.output == "json" else sys.stdout
    for line in lines:
        print(f"plan: {line}", file=out)
    out.flush()


def tell(args: argparse.Namespace, report: Mapping[str, Any], text: str = "") -> None:
    if args.output == "json":
        print(as_json(report))
    elif text:
        print(text)


def end_with(*, sound: bool) -> int:
    """Exit code of a verdict: a bad one is not a failure of the command, and has its own code."""
    return DONE if sound else NOT_AS_IT_SHOULD_BE


class Watching:
    """Status line on a terminal; nothing without one."""

    def __init__(self, out: IO[str]) -> None:
        self._out = out if out.isatty() else None

    def say(self, line: str) -> None:
        if self._out is not None:
            self._out.write(f"\r\033[K{line[: room_on(self._out)]}")
            self._out.flush()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.say("")
