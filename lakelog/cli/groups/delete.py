"""`lakelog groups delete`: removes groups without members, with their offsets."""

from __future__ import annotations

import argparse
import sys

from lakelog.cli.kit.arguments import add_output, add_server
from lakelog.cli.kit.clients import open_admin
from lakelog.cli.kit.exit_codes import done_in_part
from lakelog.cli.kit.output import write_json


def configure(parser: argparse.ArgumentParser) -> None:
    parser.description = "Delete groups in which nobody reads, with their offsets. Nobody is asked again."
    parser.add_argument("groups", metavar="GROUP", nargs="+", help="which ones")
    add_server(parser)
    add_output(parser)


def run(args: argparse.Namespace) -> int:
    from lakelog.foundation.errors import LakelogError

    gone: list[str] = []
    with open_admin(args.server) as admin:
        for group in args.groups:
            try:
                admin.delete_group(group)
            except LakelogError as error:
                if gone:
                    raise done_in_part(error, f"{', '.join(gone)} deleted before that") from None
                raise
            gone.append(group)
            if args.output == "json":
                write_json(["group", "deleted"], [(group, True)], sys.stdout)
            else:
                print(f"{group}: deleted")
    return 0
