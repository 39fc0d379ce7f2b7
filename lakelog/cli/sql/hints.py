"""What is likely wrong with a query that the engine refused, and what to do about it. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

__all__ = ["decide_hint", "wants_names"]

#: Names that SQL finds without quotes.
_PLAIN: Final = re.compile(r"[a-z_][a-z0-9_]*")
#: What is no word of the query itself: names in quotes, texts, comments.
_ASIDE: Final = re.compile(r""""(?:[^"]|"")*"|'(?:[^']|'')*'|--[^\n]*|/\*.*?\*/""", re.DOTALL)
_SHOW: Final = re.compile(r"\s*show\s+tables\s*;?\s*", re.IGNORECASE)
_COLUMNS: Final = re.compile(r"\s*show\s+columns\s+(?:from|in)\s+(\S+?)\s*;?\s*", re.IGNORECASE)
#: Columns of ours that SQL has another use for, where it reads them so.
_TAKEN: Final = re.compile(r"\b(offset|group)\b(?!\s+by\b)", re.IGNORECASE)
_MISREAD: Final = "SQL error"


def wants_names(query: str) -> bool:
    """`SHOW TABLES`, of which the engine knows nothing."""
    return _SHOW.fullmatch(query) is not None


def decide_hint(query: str, names: Iterable[str], said: str) -> str:
    """`names` are those of all relations, `said` is the engine's sentence; nothing where nothing is known."""
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
