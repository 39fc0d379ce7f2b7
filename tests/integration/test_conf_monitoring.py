"""Alerts and board in conf/: what they ask for is what a real server answers, and nothing is measured in vain."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from types import ModuleType
from typing import Any

import httpx
import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from ingest_api.observe.metric_names import METRICS
from lakelog import Consumer
from tests.architecture.project_files import ROOT, load_tool
from tests.support.promql import grouping_labels, metrics_in, selectors_in
from tests.support.serving import serving

ALERTS = ROOT / "conf" / "prometheus" / "alerts.yml"
BOARD = ROOT / "conf" / "grafana" / "lakelog.json"
#: What Prometheus adds to every sample that it takes from somebody.
OF_THE_SCRAPE = {"job", "instance"}
SEVERITIES = {"critical", "warning", "info"}
OURS = {
    metric.name + suffix: metric
    for metric in METRICS
    for suffix in (("_bucket", "_count", "_sum") if metric.type == "histogram" else ("",))
}


def rules() -> list[dict[str, Any]]:
    return [rule for group in yaml.safe_load(ALERTS.read_text(encoding="utf-8"))["groups"] for rule in group["rules"]]


def panels() -> list[dict[str, Any]]:
    return [panel for panel in json.loads(BOARD.read_text(encoding="utf-8"))["panels"] if panel["type"] != "row"]


def board_expressions() -> list[str]:
    """As Grafana would send them."""
    written = [target["expr"] for panel in panels() for target in panel["targets"]]
    return [each.replace("$__rate_interval", "5m") for each in written]


ALL = [*(rule["expr"] for rule in rules()), *board_expressions()]


@pytest.fixture(scope="module")
def exposed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, set[str]]:
    """Of every name that a server at work exposes, the labels that its samples have."""
    with serving(tmp_path_factory.mktemp("monitoring") / "root") as server:
        httpx.put(f"{server.url}/topics/orders").raise_for_status()
        httpx.post(
            f"{server.url}/topics/orders", content='{"item": "tea"}', headers={"Content-Type": "application/x-ndjson"}
        ).raise_for_status()
        with Consumer(
            {"bootstrap.servers": server.url, "group.id": "kitchen", "auto.offset.reset": "earliest"}
        ) as reader:
            reader.subscribe(["orders"])
            assert reader.poll(60)
            reader.commit()
            text = httpx.get(f"{server.url}/metrics").raise_for_status().text
    found: dict[str, set[str]] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            found.setdefault(sample.name, set()).update(sample.labels)
        if not family.samples:
            found[family.name + ("_total" if family.type == "counter" else "")] = set()
    return found


@pytest.mark.parametrize("expression", ALL)
def test_what_an_expression_asks_for_is_there_with_these_labels(expression: str, exposed: dict[str, set[str]]):
    for metric, labels in selectors_in(expression):
        if metric == "up":
            continue
        assert metric in exposed
        known = {*OURS[metric].labels, "le"} if metric in OURS else exposed[metric]
        assert labels <= known | OF_THE_SCRAPE, metric
        if exposed[metric]:
            assert exposed[metric] <= known
    of_all = {label for metric in metrics_in(expression) if metric in OURS for label in OURS[metric].labels}
    assert grouping_labels(expression) <= of_all | OF_THE_SCRAPE | {"le"}


def test_every_metric_is_watched_or_shown():
    used = {OURS[name].name for expression in ALL for name in metrics_in(expression) if name in OURS}
    assert {metric.name for metric in METRICS} - used == set()


def test_everything_that_an_alert_watches_can_be_seen_on_the_board():
    watched = {name for rule in rules() for name in metrics_in(rule["expr"])} - {"up", "process_max_fds"}
    assert watched - {name for expression in board_expressions() for name in metrics_in(expression)} == set()


@pytest.mark.parametrize("rule", rules(), ids=lambda rule: rule["alert"])
def test_an_alert_says_how_bad_it_is_and_of_what(rule: dict[str, Any]):
    assert set(rule) <= {"alert", "expr", "for", "labels", "annotations"}
    assert rule["labels"]["severity"] in SEVERITIES
    summary = rule["annotations"]["summary"]
    left = grouping_labels(rule["expr"]) or {
        label for metric in metrics_in(rule["expr"]) if metric in OURS for label in OURS[metric].labels
    }
    assert set(re.findall(r"\$labels\.(\w+)", summary)) <= left | OF_THE_SCRAPE
    assert summary.count("{{") == summary.count("}}") > 0


def test_no_alert_is_there_twice():
    assert len({rule["alert"] for rule in rules()}) == len(rules())


def test_prometheus_itself_where_it_is_installed_finds_nothing_wrong_with_the_alerts():
    """The tests above do without."""
    promtool = shutil.which("promtool")
    if promtool is None:
        return
    checked = subprocess.run([promtool, "check", "rules", str(ALERTS)], capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stdout + checked.stderr


@pytest.fixture(scope="module")
def tool() -> ModuleType:
    return load_tool("grafana_board")


def test_the_board_is_the_one_of_the_program(tool: ModuleType):
    assert tool.render_board() == BOARD.read_text(encoding="utf-8"), "run python tools/grafana_board.py"


def test_no_panel_lies_upon_another_or_has_its_number(tool: ModuleType):
    board = json.loads(tool.render_board())["panels"]
    places = [
        (x, y)
        for panel in board
        for at in [panel["gridPos"]]
        for x in range(at["x"], at["x"] + at["w"])
        for y in range(at["y"], at["y"] + at["h"])
    ]
    assert len(set(places)) == len(places)
    assert max(x for x, _ in places) < 24
    assert len({panel["id"] for panel in board}) == len(board)
    assert len({panel["title"] for panel in board}) == len(board)


def test_the_choices_of_the_board_are_those_that_its_expressions_make():
    choices = json.loads(BOARD.read_text(encoding="utf-8"))["templating"]["list"]
    named = {name for each in board_expressions() for name in re.findall(r"\$(\w+)", each)}
    assert {choice["name"] for choice in choices} == named | {"datasource"}
    for choice in choices[1:]:
        metric, label = re.fullmatch(r"label_values\((.+), (\w+)\)", choice["query"]["query"]).groups()
        (selector,) = selectors_in(metric)
        assert label in {*OURS[selector.metric].labels} | OF_THE_SCRAPE
