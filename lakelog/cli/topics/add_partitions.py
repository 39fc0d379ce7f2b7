"""`lakelog topics add-partitions`: gives a topic more partitions."""

from __future__ import annotations

import argparse
import sys

from lakelog.cli.kit.arguments import add_output, add_server, positive
from lakelog.cli.kit.clients import open_admin
from lakelog.cli.kit.output import write_json


def configure(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Give a topic more partitions. Keys may find other partitions from then on, so records of one key are in order "
        "only before and behind that."
    )
    parser.add_argument("topic", metavar="TOPIC", help="which one")
    parser.add_argument(
        "--partitions", type=positive, metavar="N", required=True, help="how many there shall be then, in all"
    )
    add_server(parser)
    add_output(parser)


def run(args: argparse.Namespace) -> int:
    with open_admin(args.server) as admin:
        before = admin.describe_topic(args.topic).partitions
        admin.add_partitions(args.topic, args.partitions)
    if args.output == "json":
        write_json(["topic", "before", "partitions"], [(args.topic, before, args.partitions)], sys.stdout)
    else:
        print(f"{args.topic}: {args.partitions} partitions, before {before}")
    return 0
