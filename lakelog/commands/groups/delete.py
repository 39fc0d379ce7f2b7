"""`lakelog groups delete`: removes groups in which nobody reads, with their offsets."""

from __future__ import annotations

import argparse
import sys

from lakelog.terminal.arguments import add_output, add_server
from lakelog.terminal.clients import open_admin
from lakelog.terminal.showing import write_json


def configure(parser: argparse.ArgumentParser) -> None:
    parser.description = "Delete groups in which nobody reads, with their offsets. Nobody is asked again."
    parser.add_argument("groups", metavar="GROUP", nargs="+", help="which ones")
    add_server(parser)
    add_output(parser)


def run(args: argparse.Namespace) -> int:
    with open_admin(args.server) as admin:
        for group in args.groups:
            admin.delete_group(group)
            if args.output == "json":
                write_json(["group", "deleted"], [(group, True)], sys.stdout)
            else:
                print(f"{group}: deleted")
    return 0
