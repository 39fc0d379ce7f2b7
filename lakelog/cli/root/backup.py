"""`lakelog backup`: a copy of a root, running or not, as it was at one moment; run again, it copies what is new."""

from __future__ import annotations

import argparse
import sys

from lakelog.cli.kit.arguments import add_output
from lakelog.cli.kit.exit_codes import IN_THE_WAY, Failure
from lakelog.cli.kit.rooted import add_root, find_root
from lakelog.cli.kit.verbs import Watching, add_dry_run, end_with, tell, tell_plan
from lakelog.cli.root.copying import add_copy, copy_place, plan_lines, show_copy, watched


def configure(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Copy a root, running or not, as it is at one moment, to a directory or a bucket. Where an earlier backup "
        "of it is there, only what is new is copied."
    )
    add_copy(parser, "where the backup is, or is to be: an empty place, or an earlier backup of the same root")
    add_root(parser)
    parser.add_argument(
        "--without-journal",
        action="store_true",
        help="leave out what is not in the tables yet, as where the journal is damaged",
    )
    add_dry_run(parser, "say what would be copied, and copy nothing")
    add_output(parser)


def run(args: argparse.Namespace) -> int:
    from delta_log.model.errors import InvalidRequest
    from delta_log.operations import backup
    from delta_log.root.root import as_root

    source, target, journal = as_root(find_root(args)), as_root(copy_place(args)), not args.without_journal
    try:
        report = backup(source, target, with_journal=journal, dry_run=True)
    except InvalidRequest as error:
        raise Failure(str(error), "name an empty place, or an earlier backup", exit_code=IN_THE_WAY) from None
    tell_plan(args, plan_lines(args, report))
    if not args.dry_run:
        with Watching(sys.stderr) as watching:
            report = backup(source, target, with_journal=journal, progress=watched(watching))
    tell(args, show_copy(report), "" if args.dry_run else str(report))
    return end_with(sound=report.complete)
