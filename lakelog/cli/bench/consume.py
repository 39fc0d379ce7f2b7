"""`lakelog bench consume`: reads a topic from its beginning as fast as it can, and reports how long polls took."""

from __future__ import annotations

import argparse
import sys
from time import perf_counter
from typing import TYPE_CHECKING

from lakelog.cli.bench.figures import say_figures, sum_up
from lakelog.cli.kit.arguments import add_output, add_server, name_and_value, positive
from lakelog.cli.kit.clients import open_admin, reading_by_hand
from lakelog.cli.kit.output import write_thing
from lakelog.cli.kit.progress import Progress

if TYPE_CHECKING:
    from lakelog.admin import Admin
    from lakelog.consumer import Consumer


def configure(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Read a topic from its beginning, and say how many records a second and how long each poll took. Nothing is "
        "committed."
    )
    parser.add_argument("topic", metavar="TOPIC", help="which one")
    parser.add_argument("--records", type=positive, metavar="N", help="how many records (default: all that there are)")
    parser.add_argument(
        "--property", type=name_and_value, metavar="NAME=VALUE", action="append", default=[],
        help="a setting of the Python Consumer, as fetch.max.bytes=65536; may be given many times",
    )  # fmt: skip
    add_server(parser)
    add_output(parser)


def run(args: argparse.Namespace) -> int:
    with open_admin(args.server) as admin:
        ranges = [admin.offsets(args.topic, at) for at in range(admin.describe_topic(args.topic).partitions)]
        there = sum(each.end_offset - each.beginning_offset for each in ranges)
        wanted = min(there, args.records or there)
        with reading_by_hand(args.server, dict(args.property)) as consumer:
            consumer.assign([(args.topic, at) for at in range(len(ranges))])
            consumer.seek_to_beginning()
            read, size, seconds, latencies = _read(admin, consumer, args.topic, wanted)
    figures = sum_up("a poll", read, size, seconds, latencies)
    if args.output == "json":
        write_thing("json", {"topic": args.topic, **figures}, sys.stdout)
    else:
        print(say_figures("read", figures))
    return 0


def _read(admin: Admin, consumer: Consumer, topic: str, wanted: int) -> tuple[int, int, float, list[float]]:
    """Read up to `wanted` records; fewer if offsets have gaps: it ends when no more arrive."""
    progress = Progress(0, sys.stderr)
    read = size = 0
    latencies: list[float] = []
    begun = ended = perf_counter()
    try:
        while read < wanted:
            asked = perf_counter()
            records = consumer.poll(1.0, max_records=min(10_000, wanted - read))
            if not records:
                admin.describe_topic(topic)
                if not any(consumer.lag().values()):
                    break
                continue
            ended = perf_counter()
            latencies.append(ended - asked)
            read += len(records)
            size += sum(len(each.key or b"") + len(each.value or b"") for each in records)
            progress.tell(size, read)
    finally:
        progress.end()
    return read, size, ended - begun, latencies
