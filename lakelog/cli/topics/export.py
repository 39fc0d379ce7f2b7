"""`lakelog topics export`: hands a topic's table over to other writers, in place. It is then no longer a topic.

It works on the root itself, exclusively: the one command of topics without a server.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from lakelog.cli.kit.arguments import add_output
from lakelog.cli.kit.rooted import add_root, find_root
from lakelog.cli.kit.verbs import TAKES_OVER, add_dry_run, add_yes, confirm, tell, tell_plan

if TYPE_CHECKING:
    from delta_log.operations.export import ExportReport


def configure(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Bring everything into a topic's table, then let everybody write to it, in place. From then on it is no topic. "
        "Stop the server first; to keep the topic, export it from a backup."
    )
    parser.add_argument("topic", metavar="TOPIC", help="which one")
    add_root(parser)
    add_dry_run(parser, "say what would be done, and change nothing")
    add_yes(parser)
    add_output(parser)


def run(args: argparse.Namespace) -> int:
    from delta_log.operations import export_topic
    from delta_log.root.root import as_root

    place = as_root(find_root(args))
    plan: list[str] = []
    report = export_topic(place, args.topic, dry_run=True, say=plan.append)
    tell_plan(args, plan if place.locks or report.already else [TAKES_OVER, *plan])
    if not (args.dry_run or report.already):
        confirm(args, "Carry this out?")
        report = export_topic(place, args.topic)
    tell(args, _show(report), str(report))
    return 0


def _show(report: ExportReport) -> dict[str, Any]:
    return {
        "topic": report.topic,
        "location": report.location,
        "version": report.version,
        "already": report.already,
        "dry_run": report.dry_run,
    }
