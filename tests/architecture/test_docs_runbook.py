"""docs/runbook.md has every line of server, log, groups, jobs and clients that something is wrong, and every alert."""

from __future__ import annotations

import re
from typing import Any

import pytest
import yaml

from tests.architecture.project_files import ROOT
from tests.support.promql import metrics_in
from tests.support.said_lines import Said, said_by, said_in

PAGE = (ROOT / "docs" / "runbook.md").read_text(encoding="utf-8")
ROOMS = ("delta_log", "consumer_groups", "ingest_api", "jobs", "lakelog/produce", "lakelog/consume")
SCHEDULER = ROOT / "lakelog" / "cli" / "jobs" / "running.py"
LINE = re.compile(r"^\| `([^`]+)` \| (warning|error) \| ([^|]+) \| ([^|]+) \|$", re.MULTILINE)
ALERT = re.compile(r"^\| `(Lakelog\w+)` \| (\w+) \| ([^|]+) \| ([^|]+) \| ([^|]+) \|$", re.MULTILINE)
#: Said by what writes the log itself, which cannot say it by a logger.
OF_THE_WRITER = {
    Said("… lines of the log were left out: its reader is too slow", "warning"),
    Said("a message of … at … could not be put into words", "error"),
}
#: Progress, which is wiped, and errors in their own words; what a schedule says when all is well, and how it begins.
NO_LINES = {"…", "the next run is due at …", "lakelog jobs: …"}


def alerts() -> dict[str, dict[str, Any]]:
    file = yaml.safe_load((ROOT / "conf" / "prometheus" / "alerts.yml").read_text(encoding="utf-8"))
    return {rule["alert"]: rule for group in file["groups"] for rule in group["rules"]}


def test_every_line_that_may_be_said_has_a_row_with_its_level_and_every_row_a_line():
    said = {*said_by([ROOT / room for room in ROOMS]), *said_in(SCHEDULER.read_text(encoding="utf-8"), says="say")}
    said = {each for each in said if each.line not in NO_LINES}
    assert {Said(line, level) for line, level, *_ in LINE.findall(PAGE)} == said | OF_THE_WRITER


def test_the_lines_of_what_writes_the_log_are_those_of_the_code():
    source = (ROOT / "ingest_api" / "observe" / "log_writer.py").read_text(encoding="utf-8")
    for line, _ in OF_THE_WRITER:
        pattern = re.escape(line).replace("…", r"\{[^}]+\}(?::\{[^}]+\})?")
        assert re.search(pattern, source), line


def test_no_row_is_there_twice_or_leaves_something_open():
    rows = [*LINE.findall(PAGE), *ALERT.findall(PAGE)]
    assert len({row[0] for row in rows}) == len(rows)
    assert len(rows) == sum(line.startswith("| `") for line in PAGE.splitlines()), "every row is well formed"
    assert all(cell.strip() for row in rows for cell in row)


def test_every_alert_has_a_row_that_names_its_severity_and_what_it_watches():
    written = {
        name: (severity, set(re.findall(r"`(\w+)`", watches))) for name, severity, watches, *_ in ALERT.findall(PAGE)
    }
    real = {
        name: (rule["labels"]["severity"], {metric.removesuffix("_bucket") for metric in metrics_in(rule["expr"])})
        for name, rule in alerts().items()
    }
    assert written == real


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ('_log.error("no %s, %d", a, b)', Said("no …, …", "error")),
        ('self._logger.exception("gone")', Said("gone", "error")),
        ('logger.warning("a" "b")', Said("ab", "warning")),
        ('sys.stderr.write(f"job: {why}\\n")', Said("job: …", "error")),
        ('print(f"{a} of {b}", file=sys.stderr)', Said("… of …", "error")),
        ('known.warnings.append(f"gone: {why}")', Said("gone: …", "warning")),
    ],
)
def test_lines_are_found_however_they_are_said(source: str, said: Said):
    assert list(said_in(source)) == [said]


@pytest.mark.parametrize("source", ["_log.warning(note)", '_log.log(level, "x")'])
def test_a_line_that_nobody_could_look_up_is_refused(source: str):
    with pytest.raises(ValueError, match="not written there"):
        list(said_in(source))


def test_what_is_no_warning_is_no_line():
    assert list(said_in('_log.info("x")\nprint("x")\nself.log.append("orders")')) == []
