"""docs/reference/metrics.md has every metric of the list, with what the code says of it."""

import re
from dataclasses import replace
from types import ModuleType

import pytest

from ingest_api.observe.group_metrics import MOST_GROUPS, MOST_PARTITIONS
from ingest_api.observe.metric_names import METRICS, MetricName
from ingest_api.web.counters import MOST_TOPICS
from tests.architecture.project_files import ROOT, load_tool

PAGE = (ROOT / "docs" / "reference" / "metrics.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def docs() -> ModuleType:
    return load_tool("docs_metrics")


def test_the_documented_tables_are_those_of_the_code(docs: ModuleType):
    assert docs.put_tables(PAGE) == PAGE, "run python tools/docs_metrics.py"


@pytest.mark.parametrize("metric", METRICS, ids=lambda metric: metric.name)
def test_every_metric_has_one_row_with_its_sentence(metric: MetricName):
    rows = [line for line in PAGE.splitlines() if line.startswith(f"| `{metric.name}` |")]
    assert len(rows) == 1
    assert rows[0].endswith(f"| {metric.help} |")


def test_a_changed_metric_changes_the_page(docs: ModuleType):
    assert docs.put_tables(PAGE, (replace(METRICS[0], help="Other."), *METRICS[1:])) != PAGE


def test_no_label_is_one_that_prometheus_gives_itself():
    assert {label for metric in METRICS for label in metric.labels} & {"job", "instance"} == set()


def test_the_bound_on_topics_is_the_code_s():
    assert f"at most {MOST_TOPICS:,} of them" in PAGE


def test_the_bounds_on_groups_are_the_code_s():
    page = " ".join(PAGE.split())
    assert f"There are at most {MOST_GROUPS:,} of them, the first by name" in page
    assert f"the lag in at most {MOST_PARTITIONS:,} partitions together" in page


@pytest.mark.parametrize("metric", METRICS, ids=lambda metric: metric.name)
def test_a_name_follows_the_conventions_of_prometheus(metric: MetricName):
    assert re.fullmatch(r"lakelog(_[a-z]+)+", metric.name)
    assert metric.name.endswith("_total") == (metric.type == "counter")
    assert not re.search(r"_(ms|milliseconds|kb|mb|minutes|count|sum|bucket)(_|$)", metric.name)
    assert metric.help.endswith(".")
    assert all(re.fullmatch(r"[a-z]+", label) and label != "le" for label in metric.labels)


def test_every_name_is_there_once():
    assert len({metric.name for metric in METRICS}) == len(METRICS)
