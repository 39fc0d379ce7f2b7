"""The commands of the command line: one module each, imported only when its command is called.

`lakelog --help` shows this table, which must import no command, so that help stays quick.
"""

from typing import Final

from lakelog.cli.kit.parser import Command, Commands, Group

__all__ = ["COMMANDS", "Command", "Group"]

COMMANDS: Final[Commands] = {
    "serve": Command(
        module="lakelog.cli.serve",
        summary="run the server",
        extra="server",
    ),
    "topics": Group(
        summary="list, make, look at, change and delete topics",
        commands={
            "list": Command("lakelog.cli.topics.list", "list the topics", None),
            "create": Command("lakelog.cli.topics.create", "make a topic", None),
            "describe": Command("lakelog.cli.topics.describe", "show the partitions and settings of topics", None),
            "batches": Command("lakelog.cli.topics.batches", "list the files of a topic with their offsets", None),
            "alter": Command("lakelog.cli.topics.alter", "change settings of a topic", None),
            "add-partitions": Command("lakelog.cli.topics.add_partitions", "give a topic more partitions", None),
            "delete": Command("lakelog.cli.topics.delete", "delete topics with all of their records", None),
            "export": Command("lakelog.cli.topics.export", "hand a topic's table over to other writers", "server"),
        },
    ),
    "produce": Command(
        module="lakelog.cli.produce.command",
        summary="append lines to a topic",
        extra=None,
    ),
    "consume": Command(
        module="lakelog.cli.consume.command",
        summary="write the records of topics to the output",
        extra=None,
    ),
    "groups": Group(
        summary="list, look at, reset and delete consumer groups",
        commands={
            "list": Command("lakelog.cli.groups.list", "list the groups", None),
            "describe": Command("lakelog.cli.groups.describe", "show how far groups are, and who reads", None),
            "reset-offsets": Command("lakelog.cli.groups.reset_offsets", "have a group read on elsewhere", None),
            "delete": Command("lakelog.cli.groups.delete", "delete groups with their offsets", None),
        },
    ),
    "dlq": Group(
        summary="list, look at and replay dead letters",
        commands={
            "list": Command("lakelog.cli.dlq.list", "list the topics of dead letters", None),
            "show": Command("lakelog.cli.dlq.show", "show where letters come from, and why they are there", None),
            "replay": Command("lakelog.cli.dlq.replay", "send letters back, each of them once", None),
        },
    ),
    "bench": Group(
        summary="measure how fast a server is for a client here",
        commands={
            "produce": Command("lakelog.cli.bench.produce", "send records, and say how long each took", None),
            "consume": Command("lakelog.cli.bench.consume", "read records, and say how long each poll took", None),
        },
    ),
    "sql": Command(
        module="lakelog.cli.sql.command",
        summary="query the tables of topics",
        extra="server",
    ),
    "check": Command(
        module="lakelog.cli.root.check",
        summary="look whether a root holds what it should",
        extra="server",
    ),
    "repair": Command(
        module="lakelog.cli.root.repair",
        summary="cure of a damaged root what is safe to cure",
        extra="server",
    ),
    "backup": Command(
        module="lakelog.cli.root.backup",
        summary="copy a root, running or not, as it is at one moment",
        extra="server",
    ),
    "restore": Command(
        module="lakelog.cli.root.restore",
        summary="make a root of a backup",
        extra="server",
    ),
    "demo": Command(
        module="lakelog.cli.demo.command",
        summary="watch a server, producers and a group at work, and try SQL on it",
        extra="server",
    ),
    "jobs": Command(
        module="lakelog.cli.jobs.command",
        summary="list the jobs, and run them once or every so often",
        extra="jobs",
    ),
    "doctor": Command(
        module="lakelog.cli.doctor.command",
        summary="try whether a place can keep a log, before the first commit",
        extra="server",
    ),
    "selftest": Command(
        module="lakelog.cli.selftest.command",
        summary="check this install from record to SQL row in a temporary folder",
        extra="server",
    ),
    "completion": Command(
        module="lakelog.cli.completion",
        summary="print what a shell needs to complete these words",
        extra=None,
    ),
}
