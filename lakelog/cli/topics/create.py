"""`lakelog topics create`: creates a topic; missing options get the server's defaults."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from lakelog.cli.kit.arguments import add_output, add_server, name_and_value, positive
from lakelog.cli.kit.clients import open_admin
from lakelog.cli.kit.exit_codes import UNUSABLE, Failure
from lakelog.cli.kit.output import write_json

if TYPE_CHECKING:
    from lakelog.admin import Admin
    from lakelog.topics.shapes import TopicDescription


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("topic", metavar="TOPIC", help="its name")
    parser.add_argument("--partitions", type=positive, metavar="N", help="how many (default: what the server says)")
    parser.add_argument(
        "--replication-factor",
        type=positive,
        metavar="N",
        default=1,
        help="how many replicas; there is one broker, so 1 is the only one",
    )
    parser.add_argument(
        "--config", type=name_and_value, metavar="NAME=VALUE", action="append", default=[],
        help="a setting, as retention.ms=86400000; may be given many times",
    )  # fmt: skip
    parser.add_argument("--if-not-exists", action="store_true", help="be content where it is there already, as it is")
    add_server(parser)
    add_output(parser)


def run(args: argparse.Namespace) -> int:
    if args.replication_factor != 1:
        raise Failure(
            f"there is one broker, so a topic cannot have {args.replication_factor} replicas",
            "leave --replication-factor out, or make it 1",
            exit_code=UNUSABLE,
        )
    with open_admin(args.server) as admin:
        created, topic = _create(admin, args)
    if args.output == "json":
        names = ["topic", "created", "partitions"]
        write_json(names, [[topic.name, created, topic.partitions]], sys.stdout)
    else:
        how = "created" if created else "it was there already"
        print(f"{topic.name}: {how}, {topic.partitions} partition{'s' if topic.partitions != 1 else ''}")
    return 0


def _create(admin: Admin, args: argparse.Namespace) -> tuple[bool, TopicDescription]:
    from lakelog.foundation.errors import TopicExists, UnknownTopic

    try:
        return True, admin.create_topic(args.topic, partitions=args.partitions, configs=dict(args.config))
    except TopicExists as error:
        if not args.if_not_exists:
            raise
        try:
            return False, admin.describe_topic(args.topic)
        except UnknownTopic:
            # The existing topic has a name too similar to this one.
            raise error from None
