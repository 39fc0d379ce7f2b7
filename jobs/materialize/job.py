"""Materialize: a topic becomes a typed Delta table of the user's own, exactly once.

records  →  typed rows  →  dead letters for what is none  →  rows and the mark in one commit  →  the group's offsets
"""

from __future__ import annotations

import argparse
import re
import threading
from collections.abc import Sequence
from typing import Final

from consumer_groups.model.dead_letter import dead_letter_topic
from delta_log.model.errors import InvalidRequest
from delta_log.model.names import check_topic_name
from delta_log.runtime.syscalls import Probe, no_probe
from jobs.foundation.path_checks import check_outside
from jobs.runner.stream_job import StreamJob, StreamRun, run_stream_job

__all__ = ["JOB", "main"]

_FORMATS: Final = ("json", "avro", "protobuf", "raw")
_NOT_IN_TOPICS: Final = re.compile(r"[^A-Za-z0-9._-]+")
_LONGEST: Final = 200


def main(argv: Sequence[str] | None = None, *, stopping: threading.Event | None = None, probe: Probe = no_probe) -> int:
    return run_stream_job(JOB, argv, stopping=stopping, probe=probe)


def _configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--table", required=True, metavar="TABLE", help="the path of a Delta table, or its name as schema.table"
    )
    parser.add_argument("--format", required=True, choices=_FORMATS, help="what the values are")
    parser.add_argument(
        "--schema",
        metavar="SCHEMA",
        help="of json: fields as DDL, or a file; of avro: a schema file; of protobuf: a file of descriptors",
    )
    parser.add_argument("--message", metavar="NAME", help="of protobuf: the full name of the message")
    parser.add_argument(
        "--infer", action="store_true", help="of json: find the fields of a new table in the first records"
    )
    parser.add_argument("--evolve", action="store_true", help="add fields to the table that it has not yet")
    merged = parser.add_mutually_exclusive_group()
    merged.add_argument(
        "--merge-by-key", action="store_true", help="keep the newest row of each key; a null value deletes it"
    )
    merged.add_argument("--merge-by", metavar="FIELDS", help="keep the newest row by these fields, as id or region,id")
    parser.add_argument(
        "--group", metavar="NAME", help="the group that shows how far the table is (default: materialize-TABLE)"
    )
    parser.add_argument(
        "--dead-letters", metavar="TOPIC", help="where records go that are no rows (default: the group's name and .dlq)"
    )
    parser.add_argument(
        "--begin",
        metavar="WHERE",
        help="where a table that does not know it begins: earliest (the default), latest, table or offsets as JSON",
    )
    parser.add_argument(
        "--skip-lost", action="store_true", help="go on at the first record that is there where unread ones are gone"
    )


def _check(options: argparse.Namespace) -> None:
    """Check the options, and fill in defaults that depend on others."""
    if not options.topic or len(options.topic) != 1:
        raise InvalidRequest("a table is made of one topic: say which, by --topic, once")
    _check_format(options)
    check_outside("--table", options.table, options.data)
    options.merge_by = () if options.merge_by is None else _fields(options.merge_by)
    if options.group is None:
        options.group = f"materialize-{_plain(options.table)}"
    if options.dead_letters:
        check_topic_name(options.dead_letters)
    options.dead_letters = dead_letter_topic(options.group, options.dead_letters)
    if options.dead_letters == options.topic[0]:
        raise InvalidRequest(f"the job would read what it writes: dead letters go to {options.dead_letters!r}")


def _check_format(options: argparse.Namespace) -> None:
    kind = options.format
    if kind in {"avro", "protobuf"} and not options.schema:
        raise InvalidRequest(f"--format {kind} needs --schema, the name of a file")
    if kind == "raw" and options.schema:
        raise InvalidRequest("--format raw has no --schema: its columns are those of the records")
    if (kind == "protobuf") != bool(options.message):
        raise InvalidRequest("--format protobuf needs --message, and nothing else has one")
    if options.infer and (kind != "json" or options.schema):
        raise InvalidRequest("--infer is for --format json without a --schema")
    if options.merge_by is not None and kind == "raw":
        raise InvalidRequest("--format raw has no fields to merge by: say --merge-by-key")


def _fields(text: str) -> tuple[str, ...]:
    """Parse the fields of --merge-by; names are compared case-insensitively, like columns."""
    names = tuple(name.strip() for name in text.split(","))
    if not all(names):
        raise InvalidRequest(f"--merge-by: a field has no name in {text!r}")
    twice = [name for number, name in enumerate(names) if name.lower() in map(str.lower, names[:number])]
    if twice:
        raise InvalidRequest(f"--merge-by: {twice[0]!r} is named twice")
    return names


def _plain(table: str) -> str:
    name = table.rstrip("/").rpartition("/")[2]
    return _NOT_IN_TOPICS.sub("-", name)[-_LONGEST:].strip("-.") or "table"


def _work(run: StreamRun) -> None:
    from jobs.materialize.run import materialize  # noqa: PLC0415 - showing the options must not need Spark

    materialize(run)


JOB: Final = StreamJob(
    "materialize",
    "Make a typed Delta table of a topic, exactly once, with Spark; records that are no rows become dead letters.",
    _work,
    {
        "batches": "batches that were stored, each as one commit",
        "rows": "records that they had as rows",
        "dead_letters": "records that were no rows, and are in the dead-letter topic",
        "overtaken": "times that another run had stored what this one was about to",
    },
    configure=_configure,
    check=_check,
)
