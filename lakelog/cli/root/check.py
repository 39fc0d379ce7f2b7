"""`lakelog check`: verifies a root, beside a running server or without one. It changes nothing."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, Any

from lakelog.cli.kit.arguments import add_output
from lakelog.cli.kit.rooted import add_root, find_root
from lakelog.cli.kit.verbs import Watching, add_dry_run, end_with, tell, tell_plan

if TYPE_CHECKING:
    from delta_log.operations.check.findings import CheckReport, Finding


def configure(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Read everything that a root holds, and say what is not as it was stored. It changes nothing, and works beside "
        "a running server."
    )
    add_root(parser)
    add_dry_run(parser, "say what would be read, and read no record")
    add_output(parser)


def run(args: argparse.Namespace) -> int:
    from delta_log.operations import check
    from delta_log.root.root import as_root

    place = as_root(find_root(args))
    plan = check(place, dry_run=True)
    tell_plan(args, [str(plan)])
    if args.dry_run:
        tell(args, {"root": place.store.location, "dry_run": True, "tables": list(plan.tables)})
        return 0
    with Watching(sys.stderr) as watching:
        report = check(place, progress=watching.say)
    tell(args, show_check(report), str(report))
    return end_with(sound=report.sound)


def show_check(report: CheckReport) -> dict[str, Any]:
    return {
        "root": report.location,
        "dry_run": False,
        "sound": report.sound,
        "tables": report.tables,
        "files": report.files,
        "records": report.records,
        "bytes": report.size,
        "findings": [show_finding(finding) for finding in report.findings],
    }


def show_finding(finding: Finding) -> dict[str, str]:
    return {"severity": finding.severity.value, "place": finding.place, "what": " ".join(finding.what.split())}
