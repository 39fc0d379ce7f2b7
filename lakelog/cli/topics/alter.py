"""`lakelog topics alter`: changes settings of a topic, all or none, and shows what they were before."""

from __future__ import annotations

import argparse
import sys

from lakelog.cli.kit.arguments import add_output, add_server, dotted, name_and_value
from lakelog.cli.kit.clients import open_admin
from lakelog.cli.kit.exit_codes import CALLED_WRONGLY, Failure, done_in_part
from lakelog.cli.kit.output import write_rows


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("topic", metavar="TOPIC", help="which one")
    parser.add_argument(
        "--config", type=name_and_value, metavar="NAME=VALUE", action="append", default=[],
        help="set this, as retention.ms=86400000; may be given many times",
    )  # fmt: skip
    parser.add_argument(
        "--delete-config", type=dotted, metavar="NAME", action="append", default=[],
        help="take this back to its default; may be given many times",
    )  # fmt: skip
    add_server(parser)
    add_output(parser)


def run(args: argparse.Namespace) -> int:
    from lakelog.foundation.errors import LakelogError

    changes = dict(args.config) | dict.fromkeys(args.delete_config)
    if not changes:
        raise Failure("there is nothing to change", "give --config or --delete-config", exit_code=CALLED_WRONGLY)
    with open_admin(args.server) as admin:
        before = admin.describe_configs(args.topic)
        admin.alter_configs(args.topic, changes)
        try:
            after = admin.describe_configs(args.topic)
        except LakelogError as error:
            raise done_in_part(error, f"the settings of {args.topic} were changed before that") from None
    rows = [(name, before[name].value, after[name].value, after[name].is_default) for name in changes if name in after]
    write_rows(args.output, ["name", "before", "after", "default"], rows, sys.stdout)
    return 0
