"""`lakelog dlq show`: the letters of a topic, with their origins and reasons."""

from __future__ import annotations

import argparse
import base64
import sys
from collections.abc import Iterator
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, Final

from lakelog.cli.dlq.letters import Letter, add_filters, wanted_by
from lakelog.cli.dlq.list import groups_by_topic, is_of_letters
from lakelog.cli.dlq.requests import Letters
from lakelog.cli.kit.arguments import add_output, add_server, positive
from lakelog.cli.kit.clients import open_admin
from lakelog.cli.kit.exit_codes import ABSENT, Failure
from lakelog.cli.kit.output import as_time, write_rows

if TYPE_CHECKING:
    from lakelog.admin import Admin

#: Number of first records that are checked for a letter.
_LOOKED_AT: Final = 500
_NAMES = ("partition", "offset", "time", "from", "from_partition", "from_offset", "group", "attempts", "reason", "key",
          "value")  # fmt: skip


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("dead_letters", metavar="TOPIC", help="the topic of dead letters")
    add_filters(parser)
    parser.add_argument("--max", type=positive, metavar="N", help="show so many at most")
    add_server(parser)
    add_output(parser)


def run(args: argparse.Namespace) -> int:
    wanted = wanted_by(args)
    with open_admin(args.server) as admin, Letters(args.server, args.dead_letters) as letters:
        found = _lying(admin, letters, args.dead_letters)
        first = list(islice(found, _LOOKED_AT))
        _check(admin, args.dead_letters, first)
        rows = (_row(letter) for letter in chain(first, found) if wanted.has(letter))
        write_rows(args.output, _NAMES, islice(rows, args.max), sys.stdout)
    return 0


def _lying(admin: Admin, letters: Letters, topic: str) -> Iterator[Letter]:
    for number in range(admin.describe_topic(topic).partitions):
        known = admin.offsets(topic, number)
        yield from letters.lying(number, known.beginning_offset, known.end_offset)


def _check(admin: Admin, topic: str, first: list[Letter]) -> None:
    """Refuse a topic without dead letters: reading all of it would take long and show nothing.

    It is accepted if one of its first records is a letter, or a group is known to keep its letters there.
    """
    if not first or any(letter.said for letter in first) or is_of_letters(topic, groups_by_topic(admin.list_groups())):
        return
    raise Failure(
        f"{topic} is no topic of dead letters: none of its first records is one",
        "`lakelog dlq list` names those there are",
        exit_code=ABSENT,
    )


def _row(letter: Letter) -> tuple[Any, ...]:
    record, said = letter
    origin = (letter.topic, letter.number("partition"), letter.number("offset"))
    place = (record.partition, record.offset, as_time(record.timestamp))
    content = (_content(record.key), _content(record.value))
    return (*place, *origin, said.get("group"), letter.number("attempts"), said.get("reason"), *content)


def _content(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text)
