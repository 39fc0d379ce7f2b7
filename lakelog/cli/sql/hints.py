"""Hints for queries that the engine refused: the likely error, and its cure. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

__all__ = ["decide_hint", "wants_names"]

#: Names that SQL finds without quotes.
_PLAIN: Final = re.compile(r"[a-z_][a-z0-9_]*")
#: Parts of a query that are ignored: quoted names, texts, comments.
_ASIDE: Final = re.compile(r""""(?:[^"]|"")*"|'(?:[^']|'')*'|--[^\n]*|/\*.*?\*/""", re.DOTALL)
_SHOW: Final = re.compile(r"\s*show\s+tables\s*;?\s*", re.IGNORECASE)
_COLUMNS: Final = re.compile(r"\s*show\s+columns\s+(?:from|in)\s+(\S+?)\s*;?\s*", re.IGNORECASE)
#: Columns of the tables whose names are keywords of SQL, where it takes them for keywords.
_TAKEN: Final = re.compile(r"\b(offset|group)\b(?!\s+by\b)", re.IGNORECASE)
_MISREAD: Final = "SQL error"


def wants_names(query: str) -> bool:
    """True for `SHOW TABLES`, which the engine does not support."""
    return _SHOW.fullmatch(query) is not None


def decide_hint(query: str, names: Iterable[str], said: str) -> str:
    """Find a hint; empty if there is none. `names`: those of all relations; `said`: the engine's message."""
    bare = _ASIDE.sub(" ", query)
    for name in sorted(names, key=len, reverse=True):
        if not _PLAIN.fullmatch(name) and re.search(rf"(?<![\w.-]){re.escape(name)}(?![\w-])", bare, re.IGNORECASE):
            return f'quote a name that is no plain word, as FROM "{name}"'
    if columns := _COLUMNS.fullmatch(query):
        return f"DESCRIBE {columns[1]} shows them"
    taken = _TAKEN.search(bare)
    if said.startswith(_MISREAD) and taken is not None:
        return f'quote "{taken[1].lower()}", which SQL takes for a word of its own'
    return ""
