"""Which relations SQL finds over a root, under which names, and what they are made of."""

from __future__ import annotations

import pytest

from consumer_groups.model.records import OFFSETS_TABLE
from consumer_groups.sql.relations import (
    COMMITTED,
    CONSUMER_OFFSETS,
    DATAFUSION,
    LAG,
    SPARK,
    TRANSACTIONS,
    TRANSACTIONS_TABLE,
    Dialect,
    Table,
    View,
    plan_all,
    plan_relations,
    relations_of,
)

BOTH = pytest.mark.parametrize("dialect", [DATAFUSION, SPARK], ids=["DataFusion", "Spark"])


@BOTH
def test_only_what_is_named_is_made_and_what_it_is_made_of_comes_first(dialect: Dialect):
    topics = ["a", "b", "c-d"]
    assert plan_relations({"select", "a", "x_text"}, topics, dialect) == [Table("a", "a")]
    table, view = plan_relations({"c-d_text"}, topics, dialect)
    assert (table, view.name) == (Table("c-d", "c-d"), "c-d_text")
    committed = plan_relations({COMMITTED}, topics, dialect)
    assert [each.name for each in committed] == [OFFSETS_TABLE, COMMITTED]
    lag = plan_relations({LAG}, topics, dialect)
    assert [each.name for each in lag] == [OFFSETS_TABLE, "a", "b", "c-d", LAG]
    assert isinstance(lag[-1], View)
    assert f"FROM {dialect.quote('c-d')} AS r" in lag[-1].text


@BOTH
def test_the_last_transactions_are_those_of_their_table(dialect: Dialect):
    table, view = plan_relations({TRANSACTIONS}, ["a"], dialect)
    assert (table, view.name) == (Table(TRANSACTIONS_TABLE, TRANSACTIONS_TABLE), TRANSACTIONS)
    assert plan_relations({TRANSACTIONS_TABLE}, ["a"], dialect) == [table]
    assert plan_relations({TRANSACTIONS}, [TRANSACTIONS], dialect) == [Table(TRANSACTIONS, TRANSACTIONS)]


def test_without_topics_there_is_no_lag():
    assert plan_relations({LAG}, [], SPARK) == [Table(OFFSETS_TABLE, OFFSETS_TABLE)]


@BOTH
def test_everything_there_is_has_its_name_once(dialect: Dialect):
    own = [OFFSETS_TABLE, TRANSACTIONS_TABLE]
    names = [each.name for each in plan_all(["b", "a"], dialect, own)]
    assert sorted(names) == sorted(relations_of(["a", "b"], own))
    assert len(names) == len(set(names)) == 10
    assert [each.name for each in plan_all(["a"], dialect, ())] == ["a", "a_text"]
    beside = [each.name for each in plan_all([], dialect, [TRANSACTIONS_TABLE])]
    assert beside == [TRANSACTIONS_TABLE, TRANSACTIONS]


@BOTH
def test_a_topic_counts_before_a_view_of_its_name_and_the_others_do_without_that_view(dialect: Dialect):
    topics = ["orders", "Orders_TEXT", CONSUMER_OFFSETS, COMMITTED]
    found = {each.name: each for each in plan_all(topics, dialect, [OFFSETS_TABLE])}
    assert found[CONSUMER_OFFSETS] == Table(CONSUMER_OFFSETS, CONSUMER_OFFSETS)
    assert found[COMMITTED] == Table(COMMITTED, COMMITTED)
    assert "orders_text" not in found
    lag = found[LAG]
    assert isinstance(lag, View)
    assert f"FROM {dialect.quote(OFFSETS_TABLE)} AS o" in lag.text
