"""`lakelog groups reset-offsets`: moves the offsets of a group; with `--dry-run` it only shows them."""

from __future__ import annotations

import argparse
import re
import sys
from typing import Any, Final

from lakelog.cli.kit.arguments import add_output, add_server, moment_ms, shift, whole
from lakelog.cli.kit.clients import open_admin
from lakelog.cli.kit.output import write_rows

_NUMBERS: Final = re.compile(r"[0-9]{1,10}(?:,[0-9]{1,10})*")


def configure(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Have a group in which nobody reads read on elsewhere, always inside the log. It shows where each partition "
        "was and will be."
    )
    parser.add_argument("group", metavar="GROUP", help="which one")
    to = parser.add_mutually_exclusive_group(required=True)
    to.add_argument("--to-earliest", action="store_true", help="to the first record")
    to.add_argument("--to-latest", action="store_true", help="behind the last record")
    to.add_argument(
        "--to-datetime",
        type=moment_ms,
        metavar="TIME",
        help="to the first record at or after a time, as 2026-01-31T12:00:00Z, or in milliseconds since 1970",
    )
    to.add_argument("--to-offset", type=whole, metavar="N", help="to this offset")
    to.add_argument("--shift-by", type=shift, metavar="N", help="so many records on, or with a minus back")
    parser.add_argument(
        "--topic", type=_topic, metavar="TOPIC[:N,N]", action="append",
        help="of this topic, or of these of its partitions; may be given many times (default: all that is committed)",
    )  # fmt: skip
    parser.add_argument("--dry-run", action="store_true", help="show it, and change nothing")
    add_server(parser)
    add_output(parser)


def run(args: argparse.Namespace) -> int:
    to = "earliest" if args.to_earliest else "latest" if args.to_latest else None
    with open_admin(args.server) as admin:
        places: list[tuple[str, int]] | None = None
        if args.topic is not None:
            places = [
                (topic, number)
                for topic, numbers in args.topic
                for number in (range(admin.describe_topic(topic).partitions) if numbers is None else numbers)
            ]
        done = admin.reset_group_offsets(
            args.group, to=to, timestamp=args.to_datetime, offset=args.to_offset, shift=args.shift_by,
            partitions=places, dry_run=args.dry_run,
        )  # fmt: skip
    rows = ((args.group, *place, each.before, each.after, not args.dry_run) for place, each in sorted(done.items()))
    write_rows(args.output, ["group", "topic", "partition", "before", "after", "done"], rows, sys.stdout)
    return 0


def _topic(text: str) -> Any:
    topic, colon, numbers = text.partition(":")
    if not topic or (colon and not _NUMBERS.fullmatch(numbers)):
        raise argparse.ArgumentTypeError(f"{text!r} is no topic with partitions: write it as orders or orders:0,1")
    return topic, [int(each) for each in numbers.split(",")] if colon else None
