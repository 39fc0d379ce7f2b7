# ruff: noqa: INP001 - a program to run, not a package
"""Write conf/grafana/lakelog.json, the board for Grafana, of the panels below; with --check only compare."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from marked_page import keep_current

FILE = Path(__file__).resolve().parent.parent / "conf" / "grafana" / "lakelog.json"
DATASOURCE: Final = {"type": "prometheus", "uid": "${datasource}"}
_WIDTH: Final = 24
_HERE: Final = 'instance=~"$instance"'
_TOPIC: Final = f'{_HERE},topic=~"$topic"'
_GROUP: Final = f'{_HERE},group=~"$group"'
_RANGE: Final = "[$__rate_interval]"


@dataclass(frozen=True, slots=True)
class Panel:
    """What one panel shows: expressions with what their lines are called, in one unit of Grafana's."""

    title: str
    unit: str
    lines: tuple[tuple[str, str], ...]
    type: str = "timeseries"
    width: int = 8

    @property
    def height(self) -> int:
        return 4 if self.type == "stat" else 8


def _number(title: str, expression: str, legend: str = "", unit: str = "none") -> Panel:
    return Panel(title, unit, ((expression, legend),), "stat", 4)


def _per_second(metric: str, by: str, labels: str = _HERE) -> str:
    return f"sum by ({by}) (rate({metric}{{{labels}}}{_RANGE}))"


def _quantile(share: float, metric: str, by: str = "le") -> str:
    return f"histogram_quantile({share}, sum by ({by}) (rate({metric}_bucket{{{_HERE}}}{_RANGE})))"


def _spread(metric: str) -> tuple[tuple[str, str], ...]:
    return tuple((_quantile(share, metric), f"p{share * 100:g}") for share in (0.5, 0.99))


ROWS: Final[dict[str, tuple[Panel, ...]]] = {
    "At a glance": (
        _number("Ready", f"lakelog_ready{{{_HERE}}}", "{{instance}}"),
        _number("Version", f"lakelog_build_info{{{_HERE}}}", "{{version}}"),
        _number("Epoch", f"lakelog_epoch{{{_HERE}}}", "{{instance}}"),
        _number("Closed topics", f"count(lakelog_topic_closed{{{_HERE}}}) or vector(0)"),
        _number("Writes refused", f"max(lakelog_writes_refused{{{_HERE}}})"),
        _number("Ownership lost", f"max(lakelog_ownership_lost{{{_HERE}}})"),
        _number("Tables", f"sum(lakelog_topics{{{_HERE}}})"),
        _number("Partitions", f"sum(lakelog_topic_partitions{{{_TOPIC}}})"),
        _number("Number of groups", f"sum(lakelog_consumer_groups{{{_HERE}}})"),
        _number("Groups without a lag here", f"sum(lakelog_consumer_groups_not_measured{{{_HERE}}})"),
        _number("Idempotent producers", f"sum(lakelog_producers{{{_HERE}}})"),
        _number("Overdue for retention", f"sum(lakelog_topic_retention_overdue_bytes{{{_TOPIC}}})", unit="bytes"),
    ),
    "Records": (
        Panel(
            "Produced", "cps", ((_per_second("lakelog_topic_produced_records_total", "topic", _TOPIC), "{{topic}}"),)
        ),
        Panel(
            "Consumed", "cps", ((_per_second("lakelog_topic_consumed_records_total", "topic", _TOPIC), "{{topic}}"),)
        ),
        Panel(
            "Bytes of records",
            "Bps",
            (
                (_per_second("lakelog_topic_produced_bytes_total", "topic", _TOPIC), "{{topic}} in"),
                (_per_second("lakelog_topic_consumed_bytes_total", "topic", _TOPIC), "{{topic}} out"),
            ),
        ),
    ),
    "Groups": (
        Panel(
            "Lag", "none", ((f"sum by (group, topic) (lakelog_consumer_group_lag{{{_GROUP}}})", "{{group}} {{topic}}"),)
        ),
        Panel("Members", "none", ((f"lakelog_consumer_group_members{{{_GROUP}}}", "{{group}}"),)),
        Panel(
            "Not stable",
            "none",
            ((f'lakelog_consumer_group_state{{{_GROUP},state!="Stable"}}', "{{group}} {{state}}"),),
        ),
        Panel(
            "Rebalances",
            "none",
            (
                (f"changes(lakelog_consumer_group_generation{{{_GROUP}}}{_RANGE})", "{{group}}"),
                (f"sum(increase(lakelog_consumer_group_rebalances_total{{{_HERE}}}{_RANGE}))", "of all groups"),
            ),
        ),
        Panel("Commits", "cps", ((_per_second("lakelog_consumer_group_commits_total", "instance"), "{{instance}}"),)),
        Panel("Time for a commit", "s", _spread("lakelog_consumer_group_commit_seconds")),
        Panel(
            "Given up",
            "none",
            ((f"increase(lakelog_consumer_group_given_up_total{{{_HERE}}}{_RANGE})", "{{instance}}"),),
        ),
    ),
    "Journal and tables": (
        Panel("Time for a write of the journal", "s", _spread("lakelog_journal_sync_seconds")),
        Panel(
            "Requests that share a write",
            "none",
            (
                *_spread("lakelog_journal_group_requests"),
                (f"max(lakelog_queue_requests{{{_HERE}}})", "waiting"),
            ),
        ),
        Panel("Time for a commit of a table", "s", _spread("lakelog_table_commit_seconds")),
        Panel("Age of what is not in a table", "s", ((f"lakelog_topic_table_lag_seconds{{{_TOPIC}}}", "{{topic}}"),)),
        Panel(
            "Not in the tables yet",
            "bytes",
            (
                (f"lakelog_untabled_bytes{{{_HERE}}}", "{{instance}}"),
                (f"lakelog_topic_untabled_bytes{{{_TOPIC}}}", "{{topic}}"),
            ),
        ),
        Panel(
            "Room in reserve",
            "bytes",
            (
                (f"lakelog_ballast_bytes{{{_HERE}}}", "{{instance}}"),
                (f"lakelog_disk_full{{{_HERE}}}", "{{instance}}: the disk is full"),
            ),
        ),
        Panel(
            "Failures",
            "none",
            (
                (f"sum(increase(lakelog_journal_failures_total{{{_HERE}}}{_RANGE}))", "journal"),
                (f"sum(increase(lakelog_journal_mended_total{{{_HERE}}}{_RANGE}))", "journal, settled by itself"),
                (f"sum(increase(lakelog_table_commit_failures_total{{{_HERE}}}{_RANGE}))", "tables"),
            ),
        ),
    ),
    "Transactions": (
        Panel("Open transactions", "none", ((f"lakelog_transactions_open{{{_HERE}}}", "{{instance}}"),)),
        Panel("Held by open transactions", "bytes", ((f"lakelog_transactions_open_bytes{{{_HERE}}}", "{{instance}}"),)),
        Panel("Age of the oldest", "s", ((f"lakelog_transactions_oldest_seconds{{{_HERE}}}", "{{instance}}"),)),
        Panel("How they end", "cps", ((_per_second("lakelog_transactions_ended_total", "outcome"), "{{outcome}}"),)),
    ),
    "Files": (
        Panel("Live files", "none", ((f"lakelog_topic_live_files{{{_TOPIC}}}", "{{topic}}"),)),
        Panel("Time past retention", "s", ((f"lakelog_topic_retention_overdue_seconds{{{_TOPIC}}}", "{{topic}}"),)),
        Panel("Bytes past retention", "bytes", ((f"lakelog_topic_retention_overdue_bytes{{{_TOPIC}}}", "{{topic}}"),)),
    ),
    "Requests": (
        Panel("Answers", "reqps", ((_per_second("lakelog_http_requests_total", "status"), "{{status}}"),)),
        Panel(
            "Time of a request, p99",
            "s",
            ((_quantile(0.99, "lakelog_http_request_duration_seconds", "route, le"), "{{route}}"),),
        ),
        Panel(
            "Not answered by a route",
            "reqps",
            (
                (_per_second("lakelog_http_refused_total", "reason"), "refused: {{reason}}"),
                (_per_second("lakelog_http_requests_abandoned_total", "route"), "abandoned: {{route}}"),
                (_per_second("lakelog_http_requests_failed_total", "instance"), "failed: {{instance}}"),
            ),
        ),
        Panel(
            "Connections",
            "none",
            (
                (f"lakelog_http_connections{{{_HERE}}}", "{{instance}}"),
                (f"lakelog_http_open_polls{{{_HERE}}}", "{{instance}} that wait for records"),
            ),
        ),
        Panel(
            "Connections that come and go",
            "cps",
            (
                (_per_second("lakelog_http_connections_accepted_total", "instance"), "accepted {{instance}}"),
                (_per_second("lakelog_http_connections_cut_total", "reason"), "cut: {{reason}}"),
            ),
        ),
        Panel(
            "Bytes on the wire",
            "Bps",
            (
                (_per_second("lakelog_http_received_bytes_total", "instance"), "in {{instance}}"),
                (_per_second("lakelog_http_sent_bytes_total", "instance"), "out {{instance}}"),
            ),
        ),
    ),
    "The process": (
        Panel(
            "Memory",
            "bytes",
            (
                (f"process_resident_memory_bytes{{{_HERE}}}", "{{instance}}"),
                (f"lakelog_tail_bytes{{{_HERE}}}", "newest records"),
                (f"lakelog_http_bodies_bytes{{{_HERE}}}", "large bodies"),
                (f"lakelog_http_reads_bytes{{{_HERE}}}", "answers"),
            ),
        ),
        Panel(
            "Processors and open files",
            "none",
            (
                (f"rate(process_cpu_seconds_total{{{_HERE}}}{_RANGE})", "processors {{instance}}"),
                (f"process_open_fds{{{_HERE}}}", "open files {{instance}}"),
            ),
        ),
        Panel("Upkeep", "s", ((f"lakelog_job_last_run_duration_seconds{{{_HERE}}}", "{{task}}"),)),
        Panel(
            "Runs of the upkeep",
            "cps",
            ((_per_second("lakelog_job_runs_total", "task, outcome"), "{{task}} {{outcome}}"),),
        ),
        Panel(
            "Since the last run",
            "s",
            ((f"time() - lakelog_job_last_run_timestamp_seconds{{{_HERE}}}", "{{task}} {{outcome}}"),),
        ),
        Panel(
            "Lines of the access log dropped",
            "cps",
            ((_per_second("lakelog_access_log_dropped_total", "instance"), ""),),
        ),
    ),
}


def render_board() -> str:
    """The whole file, as Grafana imports it."""
    board = {
        "uid": "lakelog",
        "title": "lakelog",
        "tags": ["lakelog"],
        "schemaVersion": 39,
        "editable": True,
        "refresh": "30s",
        "time": {"from": "now-6h", "to": "now"},
        "templating": {
            "list": [
                {"name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus"},
                _choice("instance", "label_values(lakelog_build_info, instance)"),
                _choice("topic", f"label_values(lakelog_topic_partitions{{{_HERE}}}, topic)"),
                _choice("group", f"label_values(lakelog_consumer_group_members{{{_HERE}}}, group)"),
            ]
        },
        "panels": _panels(),
    }
    return json.dumps(board, indent=1, ensure_ascii=False) + "\n"


def _choice(name: str, query: str) -> dict[str, Any]:
    return {
        "name": name,
        "type": "query",
        "datasource": DATASOURCE,
        "query": {"query": query, "refId": name},
        "refresh": 2,
        "multi": True,
        "includeAll": True,
        "allValue": ".*",
        "current": {"text": "All", "value": "$__all"},
    }


def _panels() -> list[dict[str, Any]]:
    """Each row begins a line; its panels stand beside each other as long as there is room."""
    panels: list[dict[str, Any]] = []
    y = 0
    for title, row in ROWS.items():
        panels.append(_placed(len(panels), {"type": "row", "title": title}, 0, y, _WIDTH, 1))
        y += 1
        x = 0
        for panel in row:
            if x + panel.width > _WIDTH:
                x, y = 0, y + panel.height
            panels.append(_placed(len(panels), _shown(panel), x, y, panel.width, panel.height))
            x += panel.width
        y += row[-1].height
    return panels


def _placed(number: int, panel: dict[str, Any], x: int, y: int, width: int, height: int) -> dict[str, Any]:
    return {"id": number + 1, "gridPos": {"x": x, "y": y, "w": width, "h": height}} | panel


def _shown(panel: Panel) -> dict[str, Any]:
    targets = [
        {"refId": chr(ord("A") + i), "datasource": DATASOURCE, "expr": expression, "legendFormat": legend}
        for i, (expression, legend) in enumerate(panel.lines)
    ]
    shown: dict[str, Any] = {"type": panel.type, "title": panel.title, "datasource": DATASOURCE, "targets": targets}
    shown["fieldConfig"] = {"defaults": {"unit": panel.unit}, "overrides": []}
    if panel.title == "Version":
        shown["options"] = {"textMode": "name"}
    return shown


def main() -> int:
    return keep_current("grafana_board.py", {FILE: render_board()})


if __name__ == "__main__":
    sys.exit(main())
