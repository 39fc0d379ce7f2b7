"""SQL relations over a root, under the same names in every engine. Pure.

    orders                the table of the topic, as it is
    orders_text           the same with key, value and header values as text; base64 where they are not UTF-8
    consumer_offsets      all commits of groups, as stored; also under the table's own name
    committed_offsets     the latest commit of each partition
    group_lag             lag of each group
    transactions          the last commits of each transactional id; as stored under the table's own name

A topic hides a view of the same name. It knows how each relation is built, and where the dialects of engines differ; it
must not know where a table is, or which engine runs the texts.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from typing import Final, NamedTuple

from consumer_groups.model.records import OFFSETS_TABLE
from consumer_groups.sql.views import committed_offsets, group_lag, last_transactions
from delta_log.transactions.transaction_log import TABLE as TRANSACTIONS_TABLE

_WORD: Final = re.compile(r""""((?:[^"]|"")+)"|'(?:[^']|'')*'|([A-Za-z_][A-Za-z0-9_]*)|--[^\n]*""")
_TEXT: Final = "_text"
CONSUMER_OFFSETS: Final = "consumer_offsets"
COMMITTED: Final = "committed_offsets"
LAG: Final = "group_lag"
TRANSACTIONS: Final = "transactions"
#: Relations of groups rather than of one topic.
OF_GROUPS: Final = (OFFSETS_TABLE, CONSUMER_OFFSETS, COMMITTED, LAG)
#: Relations that exist if a table of the server's own exists.
OF_SERVER: Final = {OFFSETS_TABLE: OF_GROUPS, TRANSACTIONS_TABLE: (TRANSACTIONS_TABLE, TRANSACTIONS)}


class Table(NamedTuple):
    """The Delta table of `topic`, or one of the server's own, under `name`."""

    name: str
    topic: str


class View(NamedTuple):
    name: str
    text: str


Relation = Table | View


@dataclass(frozen=True, slots=True)
class Dialect:
    """SQL dialect of an engine.

    `quote` quotes the name of a relation; `text_of` converts a column of bytes to text. `mapped(column, name, made)`
    maps each element of a list column, bound to `name`, by the expression `made`.
    """

    quote: Callable[[str], str]
    text_of: Callable[[str], str]
    mapped: Callable[[str, str, str], str]


def quote_datafusion(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def quote_spark(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


DATAFUSION: Final = Dialect(
    quote_datafusion,
    lambda column: f"coalesce(try_cast({column} AS VARCHAR), encode({column}, 'base64pad'))",
    lambda column, each, made: f"array_transform({column}, {each} -> {made})",
)
SPARK: Final = Dialect(
    quote_spark,
    lambda column: f"coalesce(try_validate_utf8(CAST({column} AS STRING)), base64({column}))",
    lambda column, each, made: f"transform({column}, {each} -> {made})",
)


def names_in(query: str) -> set[str]:
    """Words of a query that may name a relation; unquoted ones in lower case, as in SQL."""
    found = _WORD.finditer(query)
    return {quoted.replace('""', '"') if (quoted := each[1]) else (each[2] or "").lower() for each in found} - {""}


def relations_of(topics: Iterable[str], own: Collection[str]) -> list[str]:
    """Names of all relations, given the existing topics and tables of the server's own."""
    found = sorted(topics)
    taken = {each.lower() for each in found}
    others = [f"{topic}{_TEXT}" for topic in found]
    others += [name for table, names in OF_SERVER.items() if table in own for name in names]
    return [*found, *(each for each in others if each.lower() not in taken)]


def plan_relations(names: Collection[str], topics: Collection[str], dialect: Dialect) -> list[Relation]:
    """Relations to create for the names that exist, with those they are built from, in order of creation."""
    wanted = sorted(name for name in names if name in topics)
    asked = set(names) - set(topics)
    suffixed = {name: name.removesuffix(_TEXT) for name in sorted(asked) if name.endswith(_TEXT)}
    texts = {name: topic for name, topic in suffixed.items() if topic in topics}
    tables = {each: each for each in (*wanted, *texts.values())}
    views = [View(name, _as_text(topic, dialect)) for name, topic in texts.items()]
    if asked & set(OF_GROUPS):
        tables[OFFSETS_TABLE] = OFFSETS_TABLE
    if CONSUMER_OFFSETS in asked:
        tables[CONSUMER_OFFSETS] = OFFSETS_TABLE
    if asked & {TRANSACTIONS, TRANSACTIONS_TABLE}:
        tables[TRANSACTIONS_TABLE] = TRANSACTIONS_TABLE
    if TRANSACTIONS in asked:
        views.append(View(TRANSACTIONS, last_transactions(dialect.quote(TRANSACTIONS_TABLE))))
    committed = committed_offsets(dialect.quote(OFFSETS_TABLE))
    if COMMITTED in asked:
        views.append(View(COMMITTED, committed))
    if LAG in asked and topics:
        tables |= {topic: topic for topic in sorted(topics)}
        ends = {topic: dialect.quote(topic) for topic in sorted(topics)}
        views.append(View(LAG, group_lag(ends, committed=f"({committed})")))
    return [*(Table(name, topic) for name, topic in tables.items()), *views]


def plan_all(topics: Collection[str], dialect: Dialect, own: Collection[str]) -> list[Relation]:
    """Every relation there is."""
    return plan_relations(relations_of(topics, own), topics, dialect)


def _as_text(topic: str, dialect: Dialect) -> str:
    key, value, of_header = (dialect.text_of(each) for each in ("t.key", "t.value", "h['value']"))
    headers = dialect.mapped("t.headers", "h", f"named_struct('key', h['key'], 'value', {of_header})")
    return (
        f"SELECT t.partition, t.offset, t.timestamp, {key} AS key, {value} AS value, {headers} AS headers "  # noqa: S608 - ours
        f"FROM {dialect.quote(topic)} AS t"
    )
