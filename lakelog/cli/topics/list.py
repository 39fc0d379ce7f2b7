"""`lakelog topics list`: the names of the topics, a line each."""

from __future__ import annotations

import argparse
import sys

from lakelog.cli.kit.arguments import add_output, add_server
from lakelog.cli.kit.clients import open_admin
from lakelog.cli.kit.output import write_json


def configure(parser: argparse.ArgumentParser) -> None:
    add_server(parser)
    add_output(parser)


def run(args: argparse.Namespace) -> int:
    with open_admin(args.server) as admin:
        topics = admin.list_topics()
    if args.output == "json":
        write_json(["topic"], ([topic] for topic in topics), sys.stdout)
    else:
        sys.stdout.writelines(f"{topic}\n" for topic in topics)
    return 0
