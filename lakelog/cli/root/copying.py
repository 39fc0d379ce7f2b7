"""Common parts of `lakelog backup` and `lakelog restore`: the place of the backup, and the report of a copy."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from delta_log.model.store_location import Location
    from delta_log.operations.backup.report import BackupProgress, BackupReport
    from lakelog.cli.kit.verbs import Watching

__all__ = ["add_copy", "copy_place", "plan_lines", "show_copy", "watched"]


def add_copy(parser: argparse.ArgumentParser, text: str) -> None:
    parser.add_argument("backup", metavar="BACKUP", help=text)
    parser.add_argument(
        "--backup-store-option",
        action="append",
        type=_option,
        default=[],
        metavar="K=V",
        help="what the store of the backup has to be told; may be given many times (default: as --store-option)",
    )


def copy_place(args: argparse.Namespace) -> Location:
    from delta_log.model.store_location import Location, parse_options

    return Location(args.backup, parse_options(args.backup_store_option) or args.store_option)


def watched(watching: Watching) -> Callable[[BackupProgress], None]:
    def say(step: BackupProgress) -> None:
        watching.say(f"{step.files} of {step.all_files} files, {step.size:,} of {step.all_bytes:,} bytes: {step.path}")

    return say


def plan_lines(args: argparse.Namespace, plan: BackupReport) -> list[str]:
    """Lines of a plan; without --dry-run only the summary, as the lines of tables follow after the copy."""
    return str(plan).splitlines() if args.dry_run else [plan.summary]


def show_copy(report: BackupReport) -> dict[str, Any]:
    return {
        "root": report.location,
        "target": report.target,
        "dry_run": report.dry_run,
        "complete": report.complete,
        "tables": [
            {
                "table": table.name,
                "version": table.version,
                "start_offsets": list(table.starts),
                "end_offsets": list(table.ends),
                "from_journal": table.journaled,
                "files": table.files,
                "copied": table.copied,
                "bytes": table.size,
                "deleted": table.deleted,
            }
            for table in report.tables
        ],
        "left_out": [{"table": name, "why": why} for name, why in report.left_out],
        "missing": list(report.missing),
        "damage": list(report.damage),
    }


def _option(text: str) -> str:
    from delta_log.model.store_location import parse_options

    try:
        parse_options([text])
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    return text
