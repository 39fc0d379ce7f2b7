"""`lakelog topics describe`: the partitions of topics, with their begin and end offsets, and the settings in force."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, Any, Final

from lakelog.cli.kit.arguments import add_output, add_server
from lakelog.cli.kit.clients import open_admin
from lakelog.cli.kit.output import write_thing

if TYPE_CHECKING:
    from lakelog.admin import Admin

#: Source of a setting that was set on the topic itself.
_OWN: Final = "DYNAMIC_TOPIC_CONFIG"


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("topics", metavar="TOPIC", nargs="+", help="which ones")
    parser.add_argument("--all", action="store_true", help="settings that nobody changed, too")
    add_server(parser)
    add_output(parser)


def run(args: argparse.Namespace) -> int:
    with open_admin(args.server) as admin:
        for number, topic in enumerate(args.topics):
            if number and args.output == "text":
                print()
            write_thing(args.output, _describe(admin, topic, everything=args.all), sys.stdout)
    return 0


def _describe(admin: Admin, topic: str, *, everything: bool) -> dict[str, Any]:
    found = admin.describe_topic(topic)
    ranges = [admin.offsets(topic, partition) for partition in range(found.partitions)]
    configs = [each for each in admin.describe_configs(topic).values() if everything or each.source == _OWN]
    return {
        "topic": found.name,
        "partition_count": found.partitions,
        "partitions": [
            {"partition": number, "beginning_offset": each.beginning_offset, "end_offset": each.end_offset}
            for number, each in enumerate(ranges)
        ],
        "configs": [{"name": each.name, "value": each.value, "default": each.is_default} for each in configs],
    }
