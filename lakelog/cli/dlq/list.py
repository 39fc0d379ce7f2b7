"""`lakelog dlq list`: every topic of dead letters, and how many are in it."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final

from lakelog.cli.dlq.letters import REPLAYS
from lakelog.cli.kit.arguments import add_output, add_server
from lakelog.cli.kit.clients import open_admin
from lakelog.cli.kit.output import write_rows

if TYPE_CHECKING:
    from lakelog.groups.shapes import GroupListing

_SUFFIX: Final = ".dlq"


def configure(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "List the topics that groups have for their dead letters: those that members named or filled, and those whose "
        "names end in .dlq, as a group's does that was given no other."
    )
    add_server(parser)
    add_output(parser)


def run(args: argparse.Namespace) -> int:
    rows: list[tuple[str, str, int, int]] = []
    with open_admin(args.server) as admin:
        known = groups_by_topic(admin.list_groups())
        for topic in admin.list_topics():
            if is_of_letters(topic, known):
                groups = known.get(topic) or [topic.removesuffix(_SUFFIX)]
                partitions = admin.describe_topic(topic).partitions
                offsets = [admin.offsets(topic, number) for number in range(partitions)]
                letters = sum(each.end_offset - each.beginning_offset for each in offsets)
                rows.append((topic, ",".join(groups), partitions, letters))
    write_rows(args.output, ["topic", "group", "partitions", "letters"], rows, sys.stdout)
    return 0


def groups_by_topic(groups: Iterable[GroupListing]) -> dict[str, list[str]]:
    """Groups by their dead-letter topic; without the groups of replays, which read another group's topic."""
    found: dict[str, list[str]] = {}
    for each in groups:
        for topic in () if each.group.startswith(REPLAYS) else each.dead_letter_topics:
            found.setdefault(topic, []).append(each.group)
    return found


def is_of_letters(topic: str, known: Mapping[str, list[str]]) -> bool:
    """True if a topic is for dead letters, by its name and the groups."""
    return topic in known or topic.endswith(_SUFFIX)
