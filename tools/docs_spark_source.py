# ruff: noqa: INP001 - a program to run, not a package
"""Write the tables of options into docs/reference/spark-source.md; with --check only compare.

The sentences around the tables are written by hand; what stands between two marks belongs to this program.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from marked_page import keep_current, put_between

from jobs.source.declared import BOTH, OPTIONS, SINK_OPTIONS, Option

PAGE = Path(__file__).resolve().parent.parent / "docs" / "reference" / "spark-source.md"
MARKS = {
    "reading": ("<!-- reading: begin (tools/docs_spark_source.py) -->", "<!-- reading: end -->"),
    "writing": ("<!-- writing: begin (tools/docs_spark_source.py) -->", "<!-- writing: end -->"),
}


def render_table(options: Sequence[Option]) -> str:
    """The Markdown table, one row an option."""
    rows = ["| option | value | default | queries | what it says |", "|---|---|---|---|---|"]
    for each in options:
        query = "" if each.query == BOTH else each.query
        rows.append(f"| `{each.name}` | {each.takes} | {each.default or ''} | {query} | {each.doc} |")
    return "\n".join(rows)


def put_tables(page: str, reading: Sequence[Option] = OPTIONS, writing: Sequence[Option] = SINK_OPTIONS) -> str:
    """The page with what stands between the marks replaced."""
    page = put_between(page, render_table(reading), *MARKS["reading"])
    return put_between(page, render_table(writing), *MARKS["writing"])


def main() -> int:
    return keep_current("docs_spark_source.py", {PAGE: put_tables(PAGE.read_text(encoding="utf-8"))})


if __name__ == "__main__":
    sys.exit(main())
