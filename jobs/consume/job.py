"""Consume: topics as a streaming query of Spark, in a consumer group.

partitions by the group  →  batches from what is committed  →  a function  →  stdout, a table or a topic  →  commits
"""

from __future__ import annotations

import argparse
import re
import threading
from collections.abc import Sequence
from typing import Final

from consumer_groups.model.options import Options
from delta_log.model.errors import InvalidRequest
from delta_log.model.names import check_topic_name
from delta_log.runtime.syscalls import Probe, no_probe
from jobs.consume.user_functions import load_function
from jobs.foundation.path_checks import check_outside
from jobs.runner.job_main import milliseconds
from jobs.runner.stream_job import StreamJob, StreamRun, run_stream_job

__all__ = ["JOB", "main"]

_SESSION_MS: Final = 45_000
_DELIVERIES: Final = ("at-least-once", "at-most-once", "exactly-once")
_POLICIES: Final = ("earliest", "latest", "none")


def main(argv: Sequence[str] | None = None, *, stopping: threading.Event | None = None, probe: Probe = no_probe) -> int:
    return run_stream_job(JOB, argv, stopping=stopping, probe=probe)


def _configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--group", required=True, metavar="NAME", help="the consumer group that the job is a member of")
    parser.add_argument(
        "--module", metavar="FUNCTION", help="package.module.function: of a DataFrame, or of a DataFrame and a batch id"
    )
    into = parser.add_mutually_exclusive_group()
    into.add_argument("--print", action="store_true", help="print each row as a line of JSON (the default)")
    into.add_argument("--table", metavar="PATH", help="append to the Delta table at this path")
    into.add_argument("--to", metavar="TOPIC", help="append to this topic of the same server")
    parser.add_argument(
        "--delivery",
        choices=_DELIVERIES,
        default="at-least-once",
        help="commit after each batch, before it, or in one transaction with what goes --to a topic "
        "(default: %(default)s)",
    )
    parser.add_argument(
        "--auto-offset-reset",
        choices=_POLICIES,
        default="earliest",
        help="where to begin when nothing is committed, or what is committed is gone (default: %(default)s)",
    )
    parser.add_argument(
        "--session-timeout",
        type=milliseconds,
        default=_SESSION_MS,
        metavar="TIME",
        help="so long after the job died others have its partitions (default: 45s)",
    )
    parser.add_argument(
        "--checkpoint",
        metavar="PATH",
        help="keep here what a function remembers from batch to batch, and be the only reader of the group",
    )
    parser.add_argument(
        "--dead-letters",
        metavar="TOPIC",
        help="where records go that a function gives up (default: the group's name and .dlq)",
    )
    parser.add_argument(
        "--max-delivery-attempts",
        type=_attempts,
        default=Options().max_delivery_attempts,
        metavar="N",
        help="make a record a dead letter on which a function failed so often by itself; with -1 end instead "
        "(default: %(default)s)",
    )


def _check(options: argparse.Namespace) -> None:
    if options.module:
        load_function(options.module)
    for option, where in (("--table", options.table), ("--checkpoint", options.checkpoint)):
        if where:
            check_outside(option, where, options.data)
    if options.checkpoint and options.delivery == "at-most-once":
        raise InvalidRequest("a batch of a --checkpoint may come again, so it cannot be delivered at most once")
    if options.delivery == "exactly-once" and not options.to:
        raise InvalidRequest("exactly once is for what goes --to a topic; for a table there is the job materialize")
    if options.to and (options.all or options.to in (options.topic or ()) or _matches(options.pattern, options.to)):
        raise InvalidRequest(f"the job would read what it writes: {options.to!r} is among the topics that it reads")
    if options.dead_letters:
        check_topic_name(options.dead_letters)


def _attempts(text: str) -> int | None:
    """Parse the option; None means unlimited."""
    if text == "-1":
        return None
    if not (text.isascii() and text.isdigit()) or not int(text):
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of 1 or more, nor -1")
    return int(text)


def _matches(pattern: str | None, topic: str) -> bool:
    if pattern is None:
        return False
    try:
        return re.fullmatch(pattern, topic) is not None
    except re.error as error:
        raise InvalidRequest(f"--pattern {pattern!r} is not a regular expression: {error}") from None


def _work(run: StreamRun) -> None:
    from jobs.consume.member_loop import consume  # noqa: PLC0415 - showing the options must not need Spark

    consume(run, load_function(run.options.module) if run.options.module else None)


JOB: Final = StreamJob(
    "consume",
    "Read topics in a consumer group, with Spark: have a function made of them, print, store or send on the outcome.",
    _work,
    {
        "batches": "batches, or parts of one that failed, that were done and had something of the topic",
        "offsets": "offsets that they went through and committed",
        "uncommitted": "partitions that were another's by the commit, or gone: who has them reads their batch again",
        "dead_letters": "records that a function gave up, or failed on, and are in the dead-letter topic",
    },
    configure=_configure,
    check=_check,
)
