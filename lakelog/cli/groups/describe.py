"""`lakelog groups describe`: the progress of groups in each partition, its reader, and the members."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, Any

from lakelog.cli.kit.arguments import add_output, add_server
from lakelog.cli.kit.clients import open_admin
from lakelog.cli.kit.output import as_time, write_thing

if TYPE_CHECKING:
    from lakelog.groups.shapes import GroupDescription, GroupMember, GroupPartition


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("groups", metavar="GROUP", nargs="+", help="which ones")
    add_server(parser)
    add_output(parser)


def run(args: argparse.Namespace) -> int:
    with open_admin(args.server) as admin:
        for number, group in enumerate(args.groups):
            if number and args.output == "text":
                print()
            write_thing(args.output, _described(admin.describe_group(group)), sys.stdout)
    return 0


def _described(group: GroupDescription) -> dict[str, Any]:
    return {
        "group": group.group,
        "state": group.state,
        "generation": group.generation,
        "assignor": group.assignor,
        "lag": group.lag,
        "partitions": [_partition(each) for _, each in sorted(group.partitions.items())],
        "members": [_member(each) for each in group.members],
    }


def _partition(found: GroupPartition) -> dict[str, Any]:
    return {
        "topic": found.topic,
        "partition": found.partition,
        "next_offset": found.next_offset,
        "end_offset": found.end_offset,
        "lag": found.lag,
        "owner": found.owner,
        "committed": as_time(found.committed_at_ms),
        "metadata": found.metadata,
    }


def _member(found: GroupMember) -> dict[str, Any]:
    return {
        "member": found.instance_id,
        "client": found.client_id,
        "standing": found.standing,
        "static": found.group_instance_id,
        "assigned": [str(each) for each in found.assigned],
        "revoking": [str(each) for each in found.revoking],
    }
