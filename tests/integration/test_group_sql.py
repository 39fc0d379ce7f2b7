"""The documented view of committed offsets and the documented query of the lag, as engines of SQL run them."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from consumer_groups.coordinator.coordinator import Coordinator
from consumer_groups.sql.views import COMMITTED_OFFSETS, group_lag
from delta_log import Log, Settings
from delta_log.model.errors import InvalidName
from tests.architecture.project_files import ROOT
from tests.support.coordinating import coordinating, join, put
from tests.support.group_sql import (
    AUDIT,
    ENGINES,
    LAG,
    OFFSETS,
    TOPICS,
    VIEW,
    Rows,
    commit,
    lags_of,
    live_through_much,
    make_topics,
    offsets_of,
    tables_of,
)
from tests.support.keyed_rows import compact
from tests.support.logs import hold_tables

HOW_TO = ROOT / "docs" / "how-to"
Ask = Callable[[str], Rows]


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Log]:
    with Log.open(tmp_path / "root", settings=Settings(upkeep=False)) as opened:
        yield opened


@pytest.fixture(params=ENGINES)
def ask(request: pytest.FixtureRequest, log: Log) -> Ask:
    """One engine over the tables as they are when it is asked."""
    return lambda query: ENGINES[request.param](tables_of(log), query)


def run(log: Log, act: Any) -> None:
    async def within() -> None:
        async with coordinating(log) as groups:
            await act(groups)

    asyncio.run(within())


def test_the_view_and_the_query_say_what_the_coordinator_does(log: Log, ask: Ask):
    async def act(groups: Coordinator) -> None:
        await live_through_much(log, groups)
        for _ in range(2):
            assert ask(VIEW) == await offsets_of(groups)
            found = ask(LAG)
            assert found == await lags_of(log, groups)
            assert len(found) == 5
            assert [row[-1] for row in found if row[:2] == ("billing", "orders")] == [3, 2, 7]
            compact(log, OFFSETS)

    run(log, act)


def test_a_group_that_has_ended_and_a_topic_that_was_deleted_are_not_in_the_view(log: Log, ask: Ask):
    async def act(groups: Coordinator) -> None:
        await live_through_much(log, groups)
        found = {row[:2] for row in ask(VIEW)}
        assert "ended" not in {group for group, _ in found}
        assert ("billing", "short-lived") not in found
        assert (AUDIT, "short-lived") in found

    run(log, act)


def test_what_is_still_in_the_journal_is_not_seen(log: Log, ask: Ask):
    async def act(groups: Coordinator) -> None:
        await make_topics(log, groups)
        await join(groups, "one", *TOPICS, group="billing")
        await commit(groups, "billing", "one", "orders", p0=2)
        log.flush()
        hold_tables(log)
        await commit(groups, "billing", "one", "orders", p0=4)
        put(log, "orders", 0, b"more")
        assert ask(LAG) == [("billing", "orders", 0, 2, 5, 3)]
        log.flush()
        assert ask(LAG) == await lags_of(log, groups) == [("billing", "orders", 0, 4, 6, 2)]

    run(log, act)


def test_a_lag_is_null_where_the_topic_is_not_among_those_named_and_never_less_than_0(log: Log, ask: Ask):
    async def act(groups: Coordinator) -> None:
        await make_topics(log, groups)
        await join(groups, "one", *TOPICS, group="billing")
        await commit(groups, "billing", "one", "orders", p0=5)
        await commit(groups, "billing", "one", "pay-ments.eu", p0=3)
        log.flush()
        hold_tables(log)
        put(log, "orders", 0, b"more")
        await commit(groups, "billing", "one", "orders", p0=6)
        assert ask(group_lag({"orders": "orders"})) == [
            ("billing", "orders", 0, 5, 5, 0),
            ("billing", "pay-ments.eu", 0, 3, None, None),
        ]

    run(log, act)


@pytest.mark.parametrize("relation", ["", "a b", "a-b", "1a", "a;b", "a\n", "ü", "a.b"])
def test_a_table_is_known_by_a_plain_name(relation: str):
    with pytest.raises(ValueError, match="plain name"):
        group_lag({"orders": relation})


@pytest.mark.parametrize("topic", ["", "it's", "a'; DROP TABLE x; --", "a\n"])
def test_nothing_but_a_topics_name_becomes_part_of_the_text(topic: str):
    with pytest.raises(InvalidName):
        group_lag({topic: "t"})


def test_a_lag_needs_a_topic():
    with pytest.raises(ValueError, match="one topic or more"):
        group_lag({})


def words(text: str) -> str:
    return " ".join(text.split())


def test_the_pages_have_the_texts_of_the_code():
    page = (HOW_TO / "query-group-offsets.md").read_text(encoding="utf-8")
    view, lag = re.findall(r"^```sql\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    assert view.rstrip("\n") == COMMITTED_OFFSETS
    assert lag.rstrip("\n") == group_lag({"orders": "orders", "payments": "payments"})
    other = (HOW_TO / "read-topic-tables.md").read_text(encoding="utf-8")
    (shown,) = re.findall(r'^VIEW = """(.*?)"""', other, re.MULTILINE | re.DOTALL)
    assert words(shown) == words(COMMITTED_OFFSETS)
