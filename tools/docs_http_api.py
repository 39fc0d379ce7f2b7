# ruff: noqa: INP001 - a program to run, not a package
"""Write the routes of the server into docs/reference/http-api.md; --check only compares.

The sentences around the tables are written by hand; what stands between the two marks belongs to this program.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from marked_page import keep_current, put_between

from delta_log import Log
from ingest_api.config.settings import ServerSettings
from ingest_api.server.app import list_operations
from ingest_api.server.open import close_groups, open_groups
from ingest_api.web.body_reader import Bodies
from ingest_api.web.context import ServerContext
from ingest_api.web.counters import RequestCounters
from ingest_api.web.openapi import ERRORS
from ingest_api.web.parameters import Parameter
from ingest_api.web.read_budget import ReadRoom
from ingest_api.web.route_spec import Operation

PAGE = Path(__file__).resolve().parent.parent / "docs" / "reference" / "http-api.md"
BEGIN, END = "<!-- tables: begin (tools/docs_http_api.py) -->", "<!-- tables: end -->"
#: The tags in the order of the page, with what each is about.
TITLES = {
    "topics": "Topics",
    "records": "Records",
    "produce": "Producers",
    "transactions": "Transactions",
    "consumers": "Consumer instances",
    "groups": "Consumer groups",
    "v3": "v3",
    "operations": "Operations",
}


def declared_operations() -> list[Operation]:
    """Every route of a server with the default settings."""
    settings = ServerSettings()
    bodies, room = Bodies(settings.max_body_bytes, settings.max_bodies_bytes), ReadRoom(settings.max_reads_bytes)
    with Log.open("memory://") as log, ThreadPoolExecutor(1) as threads, asyncio.Runner() as runner:
        groups = runner.run(open_groups(log, settings))
        try:
            found = list_operations(ServerContext(log, groups, settings, bodies, room, RequestCounters(), threads))
            return [operation for operation in found if operation.listed]
        finally:
            runner.run(close_groups(groups))


def render_tables(operations: Sequence[Operation]) -> str:
    """For each tag its routes and their parameters, and for all the statuses of errors."""
    tags = dict.fromkeys([*TITLES, *(operation.tag for operation in operations)])
    parts: list[str] = []
    for tag in tags:
        of_tag = [operation for operation in operations if operation.tag == tag]
        if of_tag:
            parts += [f"### {TITLES.get(tag, tag.capitalize())}", "", *_routes(of_tag), *_parameters(of_tag)]
    parts += ["### Errors by status", "", "| status | what it means |", "|---|---|"]
    parts += [f"| {status} | {doc} |" for status, doc in sorted(ERRORS.items())]
    return "\n".join(parts)


def put_tables(page: str, tables: str) -> str:
    """The page with what stands between the marks replaced."""
    return put_between(page, tables, BEGIN, END)


def _routes(operations: Sequence[Operation]) -> list[str]:
    rows = ["| route | what it does | answers | refuses |", "|---|---|---|---|"]
    for operation in operations:
        answers = " · ".join(f"{says.status} {says.doc}" for says in operation.answers)
        refuses = ", ".join(map(str, sorted(operation.error_statuses)))
        rows.append(f"| `{operation.method} {operation.path}` | {operation.summary} | {answers} | {refuses} |")
    return [*rows, ""]


def _parameters(operations: Sequence[Operation]) -> list[str]:
    given = [parameter for operation in operations for parameter in operation.parameters]
    distinct = list({(each.name, str(each.kind)): each for each in given}.values())
    if not distinct:
        return []
    rows = ["| parameter | in | allowed | default | what it says |", "|---|---|---|---|---|"]
    return [*rows, *(_parameter(each) for each in distinct), ""]


def _parameter(each: Parameter) -> str:
    default = "" if each.default is None else f"`{str(each.default).lower()}`"
    allowed = str(each.kind).replace("|", "\\|")
    return f"| `{each.name}` | {each.place} | {allowed} | {default} | {each.doc} |"


def main() -> int:
    return keep_current(
        "docs_http_api.py", {PAGE: put_tables(PAGE.read_text(encoding="utf-8"), render_tables(declared_operations()))}
    )


if __name__ == "__main__":
    sys.exit(main())
