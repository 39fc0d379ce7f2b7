"""`lakelog topics batches`: the files of a topic's table, with the offsets in them, without reading one."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from lakelog.cli.kit.arguments import add_output, add_server, whole
from lakelog.cli.kit.clients import open_admin
from lakelog.cli.kit.output import as_time, write_rows

if TYPE_CHECKING:
    from lakelog.admin import Admin

_NAMES: Final = ("partition", "base_offset", "last_offset", "count", "size", "position", "created", "file")


def configure(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "List the batches of a topic: the files of its table, with the offsets in them. What is newer than the table, "
        "about a second, is in none."
    )
    parser.add_argument("topic", metavar="TOPIC", help="which one")
    parser.add_argument(
        "--partition", type=whole, metavar="N", action="append",
        help="of this partition; may be given many times (default: of all)",
    )  # fmt: skip
    parser.add_argument("--offset", type=whole, metavar="N", default=0, help="only those that reach this offset")
    add_server(parser)
    add_output(parser)


def run(args: argparse.Namespace) -> int:
    with open_admin(args.server) as admin:
        partitions = args.partition or range(admin.describe_topic(args.topic).partitions)
        write_rows(args.output, _NAMES, _rows(admin, args.topic, partitions, args.offset), sys.stdout)
    return 0


def _rows(admin: Admin, topic: str, partitions: list[int] | range, offset: int) -> Iterator[tuple[Any, ...]]:
    for partition in partitions:
        for batch in admin.batches(topic, partition, offset=offset):
            yield (
                partition,
                batch.base_offset,
                batch.last_offset,
                batch.count,
                batch.size,
                batch.position,
                as_time(batch.created_ms),
                batch.file,
            )
