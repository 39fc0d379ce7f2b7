"""`lakelog topics delete`: removes topics with all of their records."""

from __future__ import annotations

import argparse
import sys

from lakelog.terminal.arguments import add_output, add_server
from lakelog.terminal.clients import open_admin
from lakelog.terminal.showing import write_json


def configure(parser: argparse.ArgumentParser) -> None:
    parser.description = "Delete topics with all of their records. Nobody is asked again."
    parser.add_argument("topics", metavar="TOPIC", nargs="+", help="which ones")
    parser.add_argument("--if-exists", action="store_true", help="be content where one is not there")
    add_server(parser)
    add_output(parser)


def run(args: argparse.Namespace) -> int:
    from lakelog.errors import UnknownTopic

    with open_admin(args.server) as admin:
        for topic in args.topics:
            try:
                admin.delete_topic(topic)
                deleted = True
            except UnknownTopic:
                if not args.if_exists:
                    raise
                deleted = False
            if args.output == "json":
                write_json(["topic", "deleted"], [(topic, deleted)], sys.stdout)
            else:
                print(f"{topic}: {'deleted' if deleted else 'it was not there'}")
    return 0
