"""Groups in /metrics: how far each has read, what they do, and that many of them do no harm."""

from __future__ import annotations

import asyncio

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_text

from consumer_groups.model.assignment import TopicPartition
from consumer_groups.model.records import OffsetRecord
from consumer_groups.state.state import Groups
from delta_log.runtime.clock import wall_clock_ms
from ingest_api.observe import group_metrics
from ingest_api.observe import health as routes_operations
from tests.support.group_calls import HOSTILE, commit, join, leave, more, orders, poll
from tests.support.http_app import HttpApp

Samples = dict[tuple[str, ...], float]
LAG = "lakelog_consumer_group_lag"
T0 = TopicPartition("orders", 0)


def scrape(app: HttpApp) -> Samples:
    families = list(parse_text(app.get("/metrics").text))
    return {(each.name, *each.labels.values()): each.value for family in families for each in family.samples}


def lags(found: Samples) -> dict[tuple[str, ...], float]:
    return {key[1:]: value for key, value in found.items() if key[0] == LAG}


def offsets_of(app: HttpApp, group: str, *next_offsets: int) -> None:
    given = [{"topic": "orders", "partition": at, "next_offset": each} for at, each in enumerate(next_offsets)]
    assert app.put(f"/groups/{group}/offsets", json={"offsets": given}).status_code == 204


def test_the_lag_of_each_partition_is_what_the_routes_say_it_is(app: HttpApp):
    orders(app)
    join(app, "billing", "one", "orders")
    commit(app, "billing", "one", p0=4)
    assert lags(scrape(app)) == {("billing", "orders", "0"): 6, ("billing", "orders", "1"): 10}
    more(app, 0, 5)
    found = lags(scrape(app))
    assert found == {
        ("billing", each["topic"], str(each["partition"])): each["lag"]
        for each in app.get("/groups/billing").json()["partitions"]
    }
    assert found["billing", "orders", "0"] == 11


def test_a_lag_that_is_not_known_has_no_series(app: HttpApp):
    orders(app)
    join(app, "billing", "one", "orders", auto_offset_reset="none")
    commit(app, "billing", "one", p0=4)
    assert lags(scrape(app)) == {("billing", "orders", "0"): 6}


def test_members_generation_and_state_are_there_for_each_group(app: HttpApp):
    orders(app)
    join(app, "billing", "one", "orders", auto_commit_enable=False)
    poll(app, "billing", "one")
    join(app, "billing", "two", "orders")
    offsets_of(app, "audit", 3)
    found = scrape(app)
    assert found[("lakelog_consumer_groups",)] == 2
    assert found["lakelog_consumer_group_members", "billing"] == 2
    assert found["lakelog_consumer_group_generation", "billing"] == 2
    states = [key[1:] for key, value in found.items() if key[0] == "lakelog_consumer_group_state" and value == 1]
    assert sorted(states) == [("audit", "Empty"), ("billing", "Reconciling")]


def test_a_group_that_is_gone_has_no_series(app: HttpApp):
    orders(app)
    offsets_of(app, "audit", 3)
    assert app.delete("/groups/audit").status_code == 204
    found = scrape(app)
    assert not [key for key in found if "audit" in key]
    assert found[("lakelog_consumer_groups",)] == 0


def test_commits_and_rebalances_are_counted(app: HttpApp):
    orders(app)
    join(app, "billing", "one", "orders")
    commit(app, "billing", "one", p0=4, p1=2)
    join(app, "billing", "two", "orders")
    offsets_of(app, "audit", 3)
    with pytest.raises(Exception, match="out of range"):
        commit(app, "billing", "one", p0=99)
    found = scrape(app)
    assert found[("lakelog_consumer_group_commits_total",)] == 2
    assert found[("lakelog_consumer_group_commit_seconds_count",)] == 1
    assert found[("lakelog_consumer_group_rebalances_total",)] == 2
    poll(app, "billing", "one")
    leave(app, "billing", "two")
    found = scrape(app)
    assert found[("lakelog_consumer_group_rebalances_total",)] == 3


@pytest.mark.parametrize("form", ["text/plain", "application/openmetrics-text"])
def test_a_group_with_any_name_is_read_back_as_it_is_called(app: HttpApp, form: str):
    orders(app, partitions=1)
    for name in HOSTILE:
        join(app, name, "one", "orders")
    text = app.get("/metrics", headers={"accept": form}).text
    parse = parse_text if form == "text/plain" else parse_openmetrics
    family = next(each for each in parse(text) if each.name == LAG)
    assert sorted(sample.labels["group"] for sample in family.samples) == sorted(HOSTILE)


def test_groups_beyond_the_bound_have_no_series_and_are_counted(app: HttpApp, monkeypatch: pytest.MonkeyPatch):
    orders(app)
    for name, partitions in (("a", 2), ("b", 2), ("c", 1), ("d", 1)):
        offsets_of(app, name, *[1] * partitions)
    monkeypatch.setattr(routes_operations, "MOST_GROUPS", 3)
    monkeypatch.setattr(routes_operations, "MOST_PARTITIONS", 3)
    found = scrape(app)
    assert set(lags(found)) == {("a", "orders", "0"), ("a", "orders", "1"), ("c", "orders", "0")}
    assert {key[1] for key in found if key[0] == "lakelog_consumer_group_members"} == {"a", "b", "c"}
    assert found[("lakelog_consumer_groups",)] == 4
    assert found[("lakelog_consumer_groups_not_measured",)] == 2
    monkeypatch.setattr(routes_operations, "MOST_GROUPS", 4)
    monkeypatch.setattr(routes_operations, "MOST_PARTITIONS", 6)
    assert scrape(app)[("lakelog_consumer_groups_not_measured",)] == 0


def test_thousands_of_groups_are_looked_at_without_holding_up_the_loop(app: HttpApp):
    """Others have their turn in between, and what takes long is done by a thread."""
    orders(app)
    orders_id = app.log.describe_topic("orders").id
    known, now_ms = app.tier.groups._durable.groups, wall_clock_ms()
    for number in range(5000):
        name = f"group-{number}"
        committed = [
            OffsetRecord(
                group=name, topic="orders", topic_id=orders_id, partition=at, next_offset=1, committed_at_ms=now_ms
            )
            for at in range(2)
        ]
        known.by_name |= Groups(committed).by_name
    turns = 0

    async def take_turns() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    async def look() -> None:
        other = asyncio.create_task(take_turns())
        statistics = await app.tier.groups.statistics(group_metrics.MOST_GROUPS, group_metrics.MOST_PARTITIONS)
        other.cancel()
        assert (statistics.groups, len(statistics.samples)) == (5000, 1000)
        assert all(sample.progress is not None for sample in statistics.samples)

    app.run(look())
    assert turns >= group_metrics.MOST_GROUPS / 50
    found = scrape(app)
    assert len(lags(found)) == 2000
    assert found[("lakelog_consumer_groups_not_measured",)] == 4000
    assert len(app.get("/groups").json()["groups"]) == 5000


def test_a_topic_that_is_not_in_memory_is_asked_nothing(app: HttpApp):
    orders(app)
    known = app.tier.groups._offsets
    assert group_metrics.OffsetsInUse(known, {"orders"}).get(T0) is not None
    assert group_metrics.OffsetsInUse(known, ()).get(T0) is None
