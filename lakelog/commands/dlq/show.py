"""`lakelog dlq show`: the letters of a topic, where they come from, and why they are there."""

from __future__ import annotations

import argparse
import base64
import sys
from collections.abc import Iterator
from itertools import islice
from typing import Any

from lakelog.commands.dlq_asking import Letters
from lakelog.commands.dlq_letters import Letter, add_filters, wanted_by
from lakelog.terminal.arguments import add_output, add_server, positive
from lakelog.terminal.clients import open_admin
from lakelog.terminal.showing import as_time, write_rows

_NAMES = ("partition", "offset", "time", "from", "from_partition", "from_offset", "group", "attempts", "reason", "key",
          "value")  # fmt: skip


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("dead_letters", metavar="TOPIC", help="the topic of dead letters")
    add_filters(parser)
    parser.add_argument("--max", type=positive, metavar="N", help="show so many at most")
    add_server(parser)
    add_output(parser)


def run(args: argparse.Namespace) -> int:
    with open_admin(args.server) as admin, Letters(args.server, args.dead_letters) as letters:

        def found() -> Iterator[tuple[Any, ...]]:
            wanted = wanted_by(args)
            for number in range(admin.describe_topic(args.dead_letters).partitions):
                known = admin.offsets(args.dead_letters, number)
                for letter in letters.lying(number, known.beginning_offset, known.end_offset):
                    if wanted.has(letter):
                        yield _row(letter)

        write_rows(args.output, _NAMES, islice(found(), args.max), sys.stdout)
    return 0


def _row(letter: Letter) -> tuple[Any, ...]:
    record, said = letter
    origin = (letter.topic, letter.number("partition"), letter.number("offset"))
    place = (record.partition, record.offset, as_time(record.timestamp))
    content = (_content(record.key), _content(record.value))
    return (*place, *origin, said.get("group"), letter.number("attempts"), said.get("reason"), *content)


def _content(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text)
