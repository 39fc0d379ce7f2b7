"""`lakelog dlq replay`: sends dead letters back to their topics, or to another, each of them once."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, Any

from lakelog.cli.dlq.letters import Letter, Wanted, add_filters, wanted_by
from lakelog.cli.dlq.requests import Letters, Replay
from lakelog.cli.kit.arguments import add_output, add_server
from lakelog.cli.kit.clients import open_admin
from lakelog.cli.kit.exit_codes import IN_THE_WAY, UNKNOWN, Failure, done_in_part, exit_code_of
from lakelog.cli.kit.output import write_rows

if TYPE_CHECKING:
    from lakelog.admin import Admin

_NAMES = ("partition", "offset", "to", "to_partition", "to_offset", "sent")


def configure(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Send dead letters back to the topic they come from, or to another. What was sent there before is not sent "
        "again: that is remembered as long as the offsets of a group are."
    )
    parser.add_argument("dead_letters", metavar="TOPIC", help="the topic of dead letters")
    parser.add_argument("--to", metavar="TOPIC", help="send them there (default: to the topic that each comes from)")
    add_filters(parser)
    parser.add_argument("--dry-run", action="store_true", help="show what would be sent, and send nothing")
    add_server(parser)
    add_output(parser)


def run(args: argparse.Namespace) -> int:
    from lakelog.foundation.errors import LakelogError

    rows: list[tuple[Any, ...]] = []
    try:
        left_out = _replay(args, rows)
    except LakelogError as error:
        sent = sum(row[-1] for row in rows)
        if not sent and exit_code_of(error) != UNKNOWN:
            raise
        counted = f"letters sent before that: {sent}; run it again, what was sent is not sent twice"
        raise done_in_part(error, counted) from None
    finally:
        if rows or sys.exc_info()[0] is None:
            write_rows(args.output, _NAMES, rows, sys.stdout)
    if left_out:
        raise Failure(
            f"{left_out} letters were too large to be kept whole",
            "read them where they come from",
            exit_code=IN_THE_WAY,
        )
    return 0


def _replay(args: argparse.Namespace, rows: list[tuple[Any, ...]]) -> int:
    """Replay letters and append to `rows`; returns how many could not be sent because they are incomplete."""
    wanted, left_out = wanted_by(args), 0
    with open_admin(args.server) as admin, Letters(args.server, args.dead_letters) as letters:
        partitions = admin.describe_topic(args.dead_letters).partitions
        for to in [args.to] if args.to is not None else _origins(admin, letters, args.dead_letters, wanted):
            there = admin.describe_topic(to).partitions
            of = wanted if args.to is not None else wanted._replace(topic=to)
            with letters.replaying(to, partitions) as replay:
                for letter in replay:
                    if not of.has(letter):
                        continue
                    left_out += "left_out" in letter.said
                    if "left_out" not in letter.said:
                        partition = letter.number("partition") if to == letter.topic else None
                        partition = None if partition is None or partition >= there else partition
                        rows.append(_send(replay, letter, to, partition, dry_run=args.dry_run))
    return left_out


def _send(replay: Replay, letter: Letter, to: str, partition: int | None, *, dry_run: bool) -> tuple[Any, ...]:
    place = letter.record.partition, letter.record.offset
    if dry_run:
        return (*place, to, partition, None, False)
    sent = replay.send(letter, partition)
    return (*place, to, sent.partition, sent.offset, True)


def _origins(admin: Admin, letters: Letters, topic: str, wanted: Wanted) -> list[str]:
    """The topics that letters come from."""
    found: set[str] = set()
    for number in range(admin.describe_topic(topic).partitions):
        known = admin.offsets(topic, number)
        for letter in letters.lying(number, known.beginning_offset, known.end_offset):
            if letter.topic and wanted.has(letter):
                found.add(letter.topic)
    return sorted(found)
