"""`lakelog jobs`: lists the jobs, and runs them, once or at an interval.

It knows how to call a job, and nothing of its work. All words behind the names of the jobs, but `--every`, are the
jobs' own.
"""

from __future__ import annotations

import argparse
import os
import platform
import random
import sys
import uuid
from collections import ChainMap
from collections.abc import Callable, Sequence
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from lakelog.cli.kit.arguments import add_output
from lakelog.cli.kit.exit_codes import CALLED_WRONGLY, Failure
from lakelog.cli.kit.output import write_json
from lakelog.cli.kit.parser import Parser, wants_json
from lakelog.cli.kit.word_order import Options, options_of, spell_option

if TYPE_CHECKING:
    from lakelog.cli.jobs.running import Call, Stopping
    from lakelog.cli.jobs.schedule import Order

_LEAST_MS: Final = 1000
_MOST_MS: Final = 365 * 24 * 3_600_000
_USAGE: Final = (
    "lakelog jobs list [--output text|json] | lakelog jobs run NAME [NAME ...] [--every TIME] [option of the jobs ...]"
)
_EXAMPLES: Final = """
examples:
  lakelog jobs run retention --data ROOT --all --dry-run
  lakelog jobs run retention compaction --data ROOT --all --every 1h
  lakelog jobs run compaction --help
"""
#: The one option of this command itself.
EVERY: Final = (
    "--every TIME",
    "run again and again, as 90s, 10m, 2h or 1d; the first time at once (default: run once)",
)
#: Accepted as by other commands; a run has no other form.
OUTPUT: Final = ("--output json", "how to show what was done, which is always so: a line of JSON behind the plan")
_RUN_HELP: Final = """\
usage: lakelog jobs run {names} [--every TIME] [option ...]

  {every[0]:20}  {every[1]}
  {output[0]:20}  {output[1]}

All other options are the job's own:
"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.usage = _USAGE
    parser.description = "List the jobs, or run some of them one after the other, once or every so often."
    parser.epilog = _EXAMPLES
    parser.add_argument("action", choices=("list", "run"), metavar="list|run", help="what to do")
    rest = parser.add_argument("words", nargs=argparse.REMAINDER, help="jobs to run, --every, their options")
    rest.required = False  # it may be empty


def options(names: Sequence[str] | None = None) -> Options:
    """The options of the named jobs, by default of all, and the two of this command."""
    from jobs.foundation.registry import JOBS

    theirs = [options_of(parser_of(name)) for name in (JOBS if names is None else names)]
    return dict(ChainMap({EVERY[0].split()[0]: True, OUTPUT[0].split()[0]: True}, *map(dict, theirs)))


def run(args: argparse.Namespace) -> int:
    from jobs.foundation.registry import JOBS
    from lakelog.cli.jobs.schedule import Misuse, plan_order

    words: list[str] = args.words
    if args.action == "list":
        return _list(JOBS, words)
    try:
        order = plan_order(words, JOBS, options)
    except Misuse as error:
        raise _called_wrongly(str(error)) from None
    if order.wants_help:
        return _help(order)
    return _run(order)


def _list(names: tuple[str, ...], words: list[str]) -> int:
    parser = Parser(prog="lakelog jobs list", description="Name the jobs there are.", as_json=wants_json(words))
    add_output(parser)
    form: str = parser.parse_args(words).output
    found = [(name, _job(name).summary) for name in names]
    if form == "json":
        write_json(["job", "summary"], found, sys.stdout)
        return 0
    width = max(map(len, names))
    for name, summary in found:
        print(f"{name:{width}}  {summary}")
    return 0


def _help(order: Order) -> int:
    print(_RUN_HELP.format(names=" ".join(order.names) or "NAME [NAME ...]", every=EVERY, output=OUTPUT))
    for name in order.names:
        parser_of(name).print_help()
    return 0


def _run(order: Order) -> int:
    from lakelog.cli.jobs.running import Scheduler, Stopping

    try:
        every_s = _seconds(order.every)
    except argparse.ArgumentTypeError as error:
        raise _called_wrongly(f"--every: {error}") from None
    holder = f"process {os.getpid()} on {platform.node()} ({uuid.uuid4().hex[:8]})"
    with Stopping(patient=every_s is not None) as stopping:
        scheduler = Scheduler([_call(name, order, stopping) for name in order.names], holder, stopping)
        return scheduler.run_once() if every_s is None else scheduler.run_every(every_s, random.random)


def _seconds(text: str | None) -> float | None:
    from jobs.runner.job_main import milliseconds

    if text is None:
        return None
    length = milliseconds(text)
    if length < _LEAST_MS:
        raise argparse.ArgumentTypeError(f"{text!r} is less than a second")
    if length > _MOST_MS:
        raise argparse.ArgumentTypeError(f"{text!r} is more than a year")
    return length / 1000


def _call(name: str, order: Order, stopping: Stopping) -> Call:
    """Build the call of a job; wrong options end the process with 2, before anything is done."""
    from jobs.runner.stream_job import StreamJob
    from lakelog.cli.jobs.running import Call
    from lakelog.cli.jobs.schedule import is_exclusive, lease_name

    parser = parser_of(name)
    words = tuple(spell_option(word, options_of(parser)) for word in order.options)
    given = vars(parser.parse_args(words))
    main: Callable[..., int] = import_module(f"jobs.{name}").main
    return Call(
        job=name,
        main=partial(main, stopping=stopping.event) if isinstance(_job(name), StreamJob) else main,
        words=words,
        root=given.get("data") if is_exclusive(name) and not given.get("dry_run") else None,
        lease=lease_name(name, words),
        spark=given.get("engine", "spark") == "spark",
        master=given.get("master"),
    )


def _job(name: str) -> Any:
    return import_module(f"jobs.{name}").JOB


def parser_of(name: str) -> argparse.ArgumentParser:
    """Parser of a job; the options differ by kind of job, so the module that defines the kind builds it."""
    job = _job(name)
    build: Callable[[Any], argparse.ArgumentParser] = import_module(type(job).__module__).build_parser
    parser = build(job)
    parser.prog = f"lakelog jobs run {name}"
    return parser


def _called_wrongly(why: str) -> Failure:
    return Failure(why, "see lakelog jobs --help", exit_code=CALLED_WRONGLY)
