"""What of a plan is known to read, and which part of an EXPLAIN is the query."""

from __future__ import annotations

import pytest

from delta_log.fetch.query_plans import NotAQuery, check_nodes, check_word, nodes_of, parse_explain, placed


def _drawn(*labels: str) -> str:
    return "".join(f'    {at}[shape=box label="{label}"]\n' for at, label in enumerate(labels))


def test_every_node_is_found_though_its_label_has_lines_and_brackets():
    nodes = nodes_of(_drawn("Projection: a", "Filter: b = Utf8(x_]\n 3[shape=box label=_CopyTo: y)", "TableScan: t"))
    assert [kind for kind, _ in nodes] == ["Projection", "Filter", "TableScan"]


@pytest.mark.parametrize(
    ("label", "kind"),
    [
        ("CopyTo: format=csv output_url=x", "COPY"),
        ("Dml: op=[Insert Into] table=[t]", "INSERT"),
        ("CreateExternalTable: Bare { table: _t_ }", "CREATE"),
        ("DropTable: Bare", "DROP"),
        ("SetVariable: set _a_ to _b_", "SET"),
        ("NewNode", "the step 'NewNode' of a plan"),
        ("_", "the step '' of a plan"),
        ("TableScan: read_csv() projection=[a]", "the table function read_csv()"),
    ],
)
def test_one_node_that_is_not_known_to_read_is_enough_to_refuse(label: str, kind: str):
    with pytest.raises(NotAQuery) as refused:
        check_nodes(nodes_of(_drawn("Projection: a", label, "EmptyRelation: rows=1")))
    assert refused.value.kind == kind


def test_a_plan_in_which_no_node_is_found_is_refused():
    with pytest.raises(NotAQuery):
        check_nodes(nodes_of("digraph { }"))


@pytest.mark.parametrize(
    ("text", "prefix", "query"),
    [
        ("EXPLAIN SELECT 1", "EXPLAIN", "SELECT 1"),
        ("-- x\n explain\tanalyze verbose\nFROM t", "EXPLAIN ANALYZE VERBOSE", "FROM t"),
        ("EXPLAIN FORMAT tree WITH x AS (SELECT 1) SELECT 2", "EXPLAIN FORMAT tree", "WITH x AS (SELECT 1) SELECT 2"),
    ],
)
def test_an_explain_is_taken_apart(text: str, prefix: str, query: str):
    assert parse_explain(text) == (prefix, query)


@pytest.mark.parametrize(
    "text",
    [
        "SELECT 1",
        "EXPLAIN",
        "EXPLAIN COPY t TO 'x'",
        "EXPLAIN /* */ ANALYZE COPY t TO 'x'",
        "EXPLAIN VERBOSE ANALYZE SELECT 1",
        "EXPLAIN /* a /* */ SELECT 1 */ ANALYZE COPY t TO 'x'",
        "EXPLAIN -- SELECT 1\n ANALYZE COPY t TO 'x'",
        "EXPLAIN EXPLAIN SELECT 1",
        "EXPLAIN (ANALYZE) SELECT 1",
        "EXPLAIN SELECTED",
    ],
)
def test_an_explain_with_anything_but_a_query_behind_it_is_none(text: str):
    assert parse_explain(text) is None


@pytest.mark.parametrize("text", ["copy t TO 'x'", "/* SELECT */ COPY t", "EXPLAIN ANALYZE\nCOPY t TO 'x'"])
def test_a_statement_is_named_by_its_own_word(text: str):
    with pytest.raises(NotAQuery, match="COPY would"):
        check_word(text)


def test_many_comments_take_no_time():
    assert parse_explain("/**/ " * 5_000 + "SELECT 1") is None
    check_word("/**/--\n" * 5_000 + "SELECT 1")


def test_a_place_is_the_one_in_the_query():
    assert placed("found: X at Line: 2, Column: 7") == "found: X at Line: 1, Column: 7"
