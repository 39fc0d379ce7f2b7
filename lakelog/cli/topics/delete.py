"""`lakelog topics delete`: removes topics with all of their records."""

from __future__ import annotations

import argparse
import sys

from lakelog.cli.kit.arguments import add_output, add_server
from lakelog.cli.kit.clients import open_admin
from lakelog.cli.kit.exit_codes import done_in_part
from lakelog.cli.kit.output import write_json


def configure(parser: argparse.ArgumentParser) -> None:
    parser.description = "Delete topics with all of their records. Nobody is asked again."
    parser.add_argument("topics", metavar="TOPIC", nargs="+", help="which ones")
    parser.add_argument("--if-exists", action="store_true", help="be content where one is not there")
    add_server(parser)
    add_output(parser)


def run(args: argparse.Namespace) -> int:
    from lakelog.foundation.errors import LakelogError, UnknownTopic

    gone: list[str] = []
    with open_admin(args.server) as admin:
        for topic in args.topics:
            deleted = False
            try:
                admin.delete_topic(topic)
                gone.append(topic)
                deleted = True
            except LakelogError as error:
                if not (args.if_exists and isinstance(error, UnknownTopic)):
                    if gone:
                        raise done_in_part(error, f"{', '.join(gone)} deleted before that") from None
                    raise
            if args.output == "json":
                write_json(["topic", "deleted"], [(topic, deleted)], sys.stdout)
            else:
                print(f"{topic}: {'deleted' if deleted else 'it was not there'}")
    return 0
