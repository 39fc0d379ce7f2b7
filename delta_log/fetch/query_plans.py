"""Checks that a statement only reads, by the plan that the engine itself makes of it. Pure.

A text can be disguised in ways that no pattern foresees: comments, prefixes, spellings. So the engine is first asked
to plan the statement, which runs nothing, and to draw the plan as a graph. In the drawing each node is a box, whose
label begins with the kind of the node and contains no quotation mark: texts of the query cannot imitate a box. A
statement runs if every kind is known to read. This module must not know the engine, or run anything.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final, NamedTuple

from delta_log.model.errors import InvalidRequest

__all__ = ["Explained", "NotAQuery", "check_nodes", "check_word", "draw", "nodes_of", "parse_explain", "placed"]

#: Kinds of nodes that read rows or pass them on.
READS: Final = frozenset(
    [
        *("Aggregate", "DescribeTable", "Distinct", "DistinctOn", "EmptyRelation", "Filter", "Limit", "Projection"),
        *("RecursiveQuery", "Repartition", "Sort", "Subquery", "SubqueryAlias", "TableScan", "Union", "Unnest"),
        *("Values", "WindowAggr"),
        *(f"{kind} Join" for kind in ("Inner", "Left", "Right", "Full", "Cross")),
        *(f"{side}{kind} Join" for side in ("Left", "Right") for kind in ("Semi", "Anti", "Mark")),
    ]
)
#: Table functions that make rows of their arguments. All other scans are of relations that were registered.
_MAKES: Final = frozenset(["generate_series()", "range()"])
#: First words of statements that are refused by name, whatever plan the engine makes of them.
_STATEMENTS: Final = frozenset(
    [
        *("ALTER", "ANALYZE", "ATTACH", "BEGIN", "CACHE", "CALL", "COMMENT", "COMMIT", "COPY", "CREATE", "DEALLOCATE"),
        *("DELETE", "DETACH", "DROP", "EXECUTE", "EXPORT", "GRANT", "IMPORT", "INSERT", "INSTALL", "KILL", "LOAD"),
        *("MERGE", "OPTIMIZE", "PRAGMA", "PREPARE", "REFRESH", "RENAME", "REPLACE", "RESET", "REVOKE", "ROLLBACK"),
        *("SET", "START", "TRUNCATE", "UNCACHE", "UNLOAD", "UNSET", "UPDATE", "USE", "VACUUM"),
    ]
)
_OF_NODES: Final = {
    "CopyTo": "COPY",
    "Deallocate": "DEALLOCATE",
    "Execute": "EXECUTE",
    "Prepare": "PREPARE",
    "ResetVariable": "RESET",
    "SetVariable": "SET",
    "TransactionEnd": "COMMIT",
    "TransactionStart": "BEGIN",
}
#: Atomic, because a series of comments can be split in many ways.
_GAP: Final = r"(?>\s|--[^\n]*|/\*.*?\*/)*+"
_FIRST_WORD: Final = re.compile(rf"{_GAP}(\w+)", re.DOTALL)
_EXPLAIN: Final = re.compile(
    rf"{_GAP}EXPLAIN(?P<analyze>\s+ANALYZE)?(?P<verbose>\s+VERBOSE)?(?:\s+FORMAT\s+(?P<format>\w+))?\s+(?P<query>.*)",
    re.DOTALL | re.IGNORECASE,
)
#: The only words that the rest of an EXPLAIN may begin with: so it contains no further option, or comment before one.
_QUERY: Final = re.compile(r"(?:SELECT|WITH|VALUES|FROM)\b", re.IGNORECASE)
_BOX: Final = re.compile(r'\[shape=box label="(?P<kind>[A-Za-z ]*)(?P<rest>[^"]*)"\]')
_SCANNED: Final = re.compile(r": (?P<name>\S*)")
_WRITTEN: Final = re.compile(r": op=\[(?P<op>\w+)")
_LINE: Final = re.compile(r"\bLine: (\d+)")


class NotAQuery(InvalidRequest):
    """A statement that does, or may do, more than read; `kind` is the word for its action."""

    def __init__(self, kind: str, *, known: bool = True) -> None:
        self.kind = kind
        said = f"a query changes nothing, and {kind} would" if known else f"{kind} is not known to read topics alone"
        super().__init__(said)


class Explained(NamedTuple):
    """A parsed `EXPLAIN`: the prefix with its options, and the query that it explains."""

    prefix: str
    query: str


def parse_explain(text: str) -> Explained | None:
    """Parse an EXPLAIN; None if the text is no EXPLAIN, or one of an unknown form."""
    found = _EXPLAIN.fullmatch(text)
    if found is None or _QUERY.match(found["query"]) is None:
        return None
    options = [name for name in ("ANALYZE", "VERBOSE") if found[name.lower()]]
    options += [f"FORMAT {found['format']}"] if found["format"] else []
    return Explained(" ".join(["EXPLAIN", *options]), found["query"])


def draw(statement: str) -> str:
    """The statement that makes the engine draw a plan; it moves the original text down by one line."""
    return f"EXPLAIN FORMAT graphviz\n{statement}"


def placed(said: str) -> str:
    """The engine's message with line numbers corrected by the line that `draw` adds."""
    return _LINE.sub(lambda found: f"Line: {max(1, int(found[1]) - 1)}", said)


def nodes_of(drawing: str) -> list[tuple[str, str]]:
    """The nodes of a plan, each as its kind and the rest of its label."""
    return [(box["kind"], box["rest"]) for box in _BOX.finditer(drawing)]


def check_nodes(nodes: Iterable[tuple[str, str]]) -> None:
    """Raise NotAQuery if a node is not known to read, or if there is no node."""
    found = list(nodes)
    if not found:
        raise NotAQuery("a statement whose plan cannot be read", known=False)
    for kind, rest in found:
        scanned = _SCANNED.match(rest) if kind == "TableScan" else None
        if kind not in READS:
            word = _word_of(kind, rest)
            raise NotAQuery(word or f"the step {kind!r} of a plan", known=bool(word))
        if scanned and scanned["name"].endswith(")") and scanned["name"] not in _MAKES:
            raise NotAQuery(f"the table function {scanned['name']}", known=False)


def check_word(text: str) -> None:
    """Raise NotAQuery if a text begins, after an optional EXPLAIN, with the word of a statement that changes things."""
    explained = _EXPLAIN.fullmatch(text)
    found = _FIRST_WORD.match(explained["query"] if explained else text)
    if found and found[1].upper() in _STATEMENTS:
        raise NotAQuery(found[1].upper())


def _word_of(kind: str, rest: str) -> str:
    written = _WRITTEN.match(rest) if kind == "Dml" else None
    if written:
        return written["op"].upper()
    if kind.startswith(("Create", "Drop")):
        return "CREATE" if kind.startswith("Create") else "DROP"
    return _OF_NODES.get(kind, "")
