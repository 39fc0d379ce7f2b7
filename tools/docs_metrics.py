# ruff: noqa: INP001 - a program to run, not a package
"""Write the tables of metrics into docs/reference/metrics.md; with --check only compare.

The sentences around the tables are written by hand; what stands between two marks belongs to this program.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from marked_page import keep_current, put_between

from ingest_api.observe.metric_names import METRICS, MetricName

PAGE = Path(__file__).resolve().parent.parent / "docs" / "reference" / "metrics.md"
#: The sections of the page by how the names in them begin; what begins otherwise is of the log.
SECTIONS = {
    "requests": ("lakelog_http_", "lakelog_access_"),
    "topics": ("lakelog_topic_",),
    "groups": ("lakelog_consumer_",),
    "upkeep": ("lakelog_job_",),
}
LOG = "log"


def section_of(metric: MetricName) -> str:
    return next((section for section, beginnings in SECTIONS.items() if metric.name.startswith(beginnings)), LOG)


def render_table(metrics: Sequence[MetricName]) -> str:
    """The Markdown table, one row a metric."""
    rows = ["| metric | type | labels | meaning |", "|---|---|---|---|"]
    for metric in metrics:
        labels = ", ".join(f"`{label}`" for label in metric.labels) or "–"
        rows.append(f"| `{metric.name}` | {metric.type} | {labels} | {metric.help} |")
    return "\n".join(rows)


def put_tables(page: str, metrics: Sequence[MetricName] = METRICS) -> str:
    """The page with what stands between the marks replaced."""
    for section in (*SECTIONS, LOG):
        table = render_table([metric for metric in metrics if section_of(metric) == section])
        page = put_between(
            page, table, f"<!-- {section}: begin (tools/docs_metrics.py) -->", f"<!-- {section}: end -->"
        )
    return page


def main() -> int:
    return keep_current("docs_metrics.py", {PAGE: put_tables(PAGE.read_text(encoding="utf-8"))})


if __name__ == "__main__":
    sys.exit(main())
