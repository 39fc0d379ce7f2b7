"""docs/reference/metrics.md has every metric of the list, with what the code says of it."""

import re

import pytest

from ingest_api.group_metrics import MOST_GROUPS, MOST_PARTITIONS
from ingest_api.metric_names import METRICS, MetricName
from ingest_api.watch import MOST_TOPICS
from tests.architecture.project_files import ROOT

PAGE = (ROOT / "docs" / "reference" / "metrics.md").read_text(encoding="utf-8")
ROW = re.compile(r"^\| `(lakelog_\w+)` \| (\w+) \| ([^|]+) \| ([^|]+) \|$", re.MULTILINE)


def documented() -> dict[str, tuple[str, ...]]:
    return {name: tuple(given) for name, *given in ROW.findall(PAGE)}


def as_written(metric: MetricName) -> tuple[str, ...]:
    labels = ", ".join(f"`{label}`" for label in metric.labels) or "–"
    return metric.type, labels, metric.help


def test_every_metric_has_a_row_that_says_what_the_code_does():
    assert documented() == {metric.name: as_written(metric) for metric in METRICS}


def test_no_metric_has_two_rows():
    assert len(ROW.findall(PAGE)) == len(METRICS)


def test_what_an_alert_watches_is_exposed():
    samples = {
        metric.name + suffix
        for metric in METRICS
        for suffix in (("_bucket", "_count", "_sum") if metric.type == "histogram" else ("",))
    }
    alerts = PAGE.partition("## What to watch")[2].partition("## ")[0]
    watched = re.findall(r"lakelog_\w+", alerts)
    assert watched
    assert [name for name in watched if name not in samples] == []


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
