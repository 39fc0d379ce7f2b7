"""`lakelog repair`: repairs of a damaged root what can be repaired safely, and names the rest.

The plan is shown first, and executed only after confirmation. It needs exclusive access to the root.
"""

from __future__ import annotations

import argparse
import re
import sys
from typing import TYPE_CHECKING, Any, Final

from lakelog.cli.kit.arguments import add_output
from lakelog.cli.kit.exit_codes import UNUSABLE, Failure
from lakelog.cli.kit.rooted import add_root, find_root
from lakelog.cli.kit.verbs import TAKES_OVER, Watching, add_dry_run, add_yes, confirm, end_with, tell, tell_plan
from lakelog.cli.root.check import show_finding

if TYPE_CHECKING:
    from delta_log.operations.repair.repair import RepairReport

_RANGE: Final = re.compile(r"(?P<topic>[^:]+):(?P<partition>[0-9]{1,9}):(?P<first>[0-9]{1,18})-(?P<last>[0-9]{1,18})")


def configure(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Cure of a damaged root what is safe to cure, and name what is left. Stop its server first; a plan can be made "
        "beside it. It may be killed and run again."
    )
    add_root(parser)
    parser.add_argument(
        "--give-up",
        action="append",
        type=_range,
        default=[],
        metavar="TOPIC:PARTITION:FIRST-LAST",
        help="record these offsets, of which nothing can be read any more, as lost; may be given many times",
    )
    add_dry_run(parser, "say what would be done, and change nothing")
    add_yes(parser)
    add_output(parser)


def run(args: argparse.Namespace) -> int:
    from delta_log.model.errors import InvalidRequest

    try:
        return _repair(args)
    except InvalidRequest as error:
        cure = "run it with --dry-run and without --give-up: it names what cannot be read any more"
        raise Failure(str(error), cure, exit_code=UNUSABLE) from None


def _repair(args: argparse.Namespace) -> int:
    from delta_log.operations import repair
    from delta_log.root.root import as_root

    place = as_root(find_root(args))
    report: RepairReport | None = None
    if args.dry_run or not args.yes:
        with Watching(sys.stderr) as watching:
            watching.say(f"looking into {place.store.location}")
            report = repair(place, give_up=args.give_up, dry_run=True)
        tell_plan(args, [*map(str, report.done), *(f"leave as it is: {what}" for what in report.left)])
    if report is None or (report.done and not args.dry_run):
        if not place.locks:
            tell_plan(args, [TAKES_OVER])
        confirm(args, "Carry this out?")
        report = repair(place, give_up=args.give_up, say=lambda line: tell_plan(args, [line.removeprefix("cure: ")]))
    tell(args, _show(report), str(report))
    return end_with(sound=not report.left and (report.checked.sound or (args.dry_run and bool(report.done))))


def _range(text: str) -> tuple[str, int, int, int]:
    found = _RANGE.fullmatch(text)
    if found is None:
        raise argparse.ArgumentTypeError(f"{text!r} is no range: write it as orders:0:8-15, the last offset included")
    return found["topic"], int(found["partition"]), int(found["first"]), int(found["last"])


def _show(report: RepairReport) -> dict[str, Any]:
    return {
        "root": report.location,
        "dry_run": report.dry_run,
        "sound": report.checked.sound,
        "cures": list(map(str, report.done)),
        "left": list(report.left),
        "findings": [show_finding(finding) for finding in report.checked.findings],
    }
