"""`lakelog groups list`: every group, with its state and the number of members."""

from __future__ import annotations

import argparse
import sys

from lakelog.cli.kit.arguments import add_output, add_server
from lakelog.cli.kit.clients import open_admin
from lakelog.cli.kit.output import write_rows


def configure(parser: argparse.ArgumentParser) -> None:
    add_server(parser)
    add_output(parser)


def run(args: argparse.Namespace) -> int:
    with open_admin(args.server) as admin:
        groups = admin.list_groups()
    rows = ((each.group, each.state, each.members, each.generation, each.assignor) for each in groups)
    write_rows(args.output, ["group", "state", "members", "generation", "assignor"], rows, sys.stdout)
    return 0
