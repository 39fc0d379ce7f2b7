"""`lakelog doctor`: checks, before the first commit, whether a place can keep a log, and its surroundings.

It changes nothing and leaves nothing behind, also at a root that a server is writing to. The module knows the order of
the checks, and nothing of their findings.
"""

from __future__ import annotations

import argparse
import os
from typing import TYPE_CHECKING, Final

from lakelog.cli.kit.arguments import SERVER_VARIABLE, add_server, server_of

if TYPE_CHECKING:
    from lakelog.cli.doctor.findings import Finding

DEFAULT_DATA: Final = "./lakelog-data"
_DATA_VARIABLE: Final = "LAKELOG_DATA"


def configure(parser: argparse.ArgumentParser) -> None:
    from delta_log.stores.place_arguments import add_place

    parser.description = (
        "Try whether a place can keep a log: rights, put-if-absent, durable system calls, clocks, room. And look at a "
        "server, and at what jobs on Spark need. It changes nothing, and leaves nothing behind."
    )
    parser.allow_abbrev = False
    add_place(
        parser,
        os.environ,
        default=None,
        text=f"where the log lies, or is to lie (default: the variable {_DATA_VARIABLE}, else {DEFAULT_DATA}; "
        "nothing, where a server is named)",
    )
    add_server(
        parser,
        text=f"a server to look at, too (default: the variable {SERVER_VARIABLE}, where --data names no place)",
    )
    parser.set_defaults(server=None)
    parser.add_argument("--spark", action="store_true", help="fail where jobs could not run on Spark")
    parser.add_argument(
        "--output", choices=("lines", "text", "json"), default="lines", help="how to show it (default lines, as text)"
    )


def run(args: argparse.Namespace) -> int:
    from lakelog.cli.doctor.findings import decide_exit, show_json, show_lines

    findings = _examine(args)
    print(show_json(findings) if args.output == "json" else show_lines(findings))
    return decide_exit(findings)


def _examine(args: argparse.Namespace) -> list[Finding]:
    from delta_log.model.store_location import Location
    from delta_log.runtime.clock import wall_clock_ms
    from lakelog.cli.doctor.root import examine_root
    from lakelog.cli.doctor.surroundings import examine_packages, examine_server, examine_spark

    server: str | None = args.server or (None if args.data else server_of(os.environ))
    place: str | None = args.data or os.environ.get(_DATA_VARIABLE) or (None if server else DEFAULT_DATA)
    findings: list[Finding] = []
    cluster_id: str | None = None
    if place is not None:
        findings, cluster_id = examine_root(Location(place, args.store_option))
    if server:
        findings += examine_server(server, cluster_id, wall_clock_ms())
    return [*findings, *examine_spark(needed=args.spark), examine_packages()]
