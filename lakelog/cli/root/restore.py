"""`lakelog restore`: makes a root of a backup, where there is none yet. The backup stays as it is."""

from __future__ import annotations

import argparse
import os
import sys

from lakelog.cli.kit.arguments import add_output
from lakelog.cli.kit.exit_codes import IN_THE_WAY, WRONG_ROOT, Failure
from lakelog.cli.kit.rooted import DATA_VARIABLE, DEFAULT_DATA
from lakelog.cli.kit.verbs import Watching, add_dry_run, end_with, tell, tell_plan
from lakelog.cli.root.copying import add_copy, copy_place, plan_lines, show_copy, watched


def configure(parser: argparse.ArgumentParser) -> None:
    from delta_log.stores.place_arguments import add_place

    parser.description = (
        "Make a root of a backup, at an empty place. The backup stays as it is. One that died in the middle is gone on "
        "with by the same call."
    )
    add_copy(parser, "the backup, as `lakelog backup` made it")
    data = os.environ.get(DATA_VARIABLE) or DEFAULT_DATA
    text = f"where the root is to be: an empty place (default: the variable {DATA_VARIABLE}, else {DEFAULT_DATA})"
    add_place(parser, os.environ, default=data, text=text)
    add_dry_run(parser, "say what would be copied, and copy nothing")
    add_output(parser)


def run(args: argparse.Namespace) -> int:
    from delta_log.model.errors import InvalidRequest, NotARoot
    from delta_log.operations import restore
    from delta_log.root.root import as_root

    copy, target = as_root(copy_place(args)), as_root(args.data)
    try:
        report = restore(copy, target, dry_run=True)
    except InvalidRequest as error:
        cure = "name a backup, and an empty place with --data ROOT"
        raise Failure(str(error), cure, exit_code=IN_THE_WAY) from None
    except NotARoot as error:
        if error.root != copy.store.location:
            raise
        raise Failure(str(error), "name a backup", exit_code=WRONG_ROOT, code=error.code) from None
    tell_plan(args, plan_lines(args, report))
    if not args.dry_run:
        with Watching(sys.stderr) as watching:
            report = restore(copy, target, progress=watched(watching))
    tell(args, show_copy(report), "" if args.dry_run else str(report))
    return end_with(sound=report.complete)
