"""What an expression of Prometheus asks for, by a parser of its language."""

from __future__ import annotations

from typing import Any, NamedTuple

import promql_parser as promql


class Selector(NamedTuple):
    """A metric, and the labels by which it is chosen."""

    metric: str
    labels: frozenset[str]


def metrics_in(expression: str) -> set[str]:
    return {each.metric for each in selectors_in(expression)}


def selectors_in(expression: str) -> list[Selector]:
    """ValueError for what Prometheus would not read."""
    return [
        Selector(node.name or "", frozenset(matcher.name for matcher in node.matchers.matchers))
        for node in _nodes(promql.parse(expression))
        if isinstance(node, promql.VectorSelector)
    ]


def grouping_labels(expression: str) -> set[str]:
    """The labels that `by` and `on` speak of."""
    found: set[str] = set()
    for node in _nodes(promql.parse(expression)):
        if isinstance(node, promql.AggregateExpr) and node.modifier is not None:
            found |= set(node.modifier.labels)
        elif isinstance(node, promql.BinaryExpr) and node.modifier is not None and node.modifier.matching is not None:
            found |= set(node.modifier.matching.labels)
    return found


def _nodes(tree: promql.Expr) -> list[Any]:
    found: list[Any] = []
    promql.walk(tree, found.append)
    return found
