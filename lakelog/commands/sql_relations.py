"""Which relations a query names, and what they stand for. Pure.

    orders                    the table of the topic, as it is
    orders_text               the same with key and value as text; what is no UTF-8 as base64
    consumer_offsets          what groups ever committed, as stored; also by the table's own name
    committed_offsets         the latest of each partition
    group_lag                 how far each group is behind

A topic counts before a view of the same name.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Final, NamedTuple

from consumer_groups.records import OFFSETS_TABLE
from consumer_groups.sql import COMMITTED_OFFSETS, group_lag

_WORD: Final = re.compile(r""""((?:[^"]|"")+)"|'(?:[^']|'')*'|([A-Za-z_][A-Za-z0-9_]*)|--[^\n]*""")
_TEXT: Final = "_text"
CONSUMER_OFFSETS: Final = "consumer_offsets"
COMMITTED: Final = "committed_offsets"
LAG: Final = "group_lag"


class Table(NamedTuple):
    """`topic` is known by `name`."""

    name: str
    topic: str


class View(NamedTuple):
    name: str
    text: str


def names_in(query: str) -> set[str]:
    """Every word that may be the name of a relation; unquoted ones are lower case to SQL."""
    found = _WORD.finditer(query)
    return {quoted.replace('""', '"') if (quoted := each[1]) else (each[2] or "").lower() for each in found} - {""}


def plan_relations(query: str, topics: Collection[str]) -> list[Table | View]:
    """In the order in which they are to be made."""
    names = names_in(query)
    wanted = sorted(name for name in names if name in topics)
    texts = sorted(name for name in names - set(topics) if name.endswith(_TEXT) and name[: -len(_TEXT)] in topics)
    tables = {each: each for each in (*wanted, *(name[: -len(_TEXT)] for name in texts))}
    views = [View(name, _as_text(name[: -len(_TEXT)])) for name in texts]
    asked = names - set(topics)
    if OFFSETS_TABLE in asked:
        tables[OFFSETS_TABLE] = OFFSETS_TABLE
    if asked & {CONSUMER_OFFSETS, COMMITTED, LAG}:
        tables[CONSUMER_OFFSETS] = OFFSETS_TABLE
    if asked & {COMMITTED, LAG}:
        views.append(View(COMMITTED, COMMITTED_OFFSETS))
    if LAG in asked and topics:
        numbered = {topic: f"lakelog_topic_{number}" for number, topic in enumerate(sorted(topics))}
        tables |= {relation: topic for topic, relation in numbered.items()}
        views.append(View(LAG, group_lag(numbered)))
    return [*(Table(name, topic) for name, topic in tables.items()), *views]


def _as_text(topic: str) -> str:
    quoted = topic.replace('"', '""')
    key, value = (f"coalesce(try_cast({name} AS VARCHAR), encode({name}, 'base64'))" for name in ("key", "value"))
    return f'SELECT "partition", "offset", "timestamp", {key} AS key, {value} AS value, headers FROM "{quoted}"'  # noqa: S608 - names of topics
