"""SQL texts for groups and transactions: views of their latest rows, and the query for the lag.

Spark, DuckDB and delta-rs (DataFusion) all accept these texts unchanged: every column is qualified by its table, so
that `group`, `offset` and `partition` are not taken for keywords. They read tables only, not what is still in the
journal. It must not know how a table is found, or which engine runs the text. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from delta_log.model.names import check_topic_name

_QUOTED: Final = r'(?:"(?:[^"]|"")+"|`(?:[^`]|``)+`)'
_RELATION: Final = re.compile(rf"[A-Za-z_][A-Za-z0-9_]*|{_QUOTED}(?:\.{_QUOTED})*")

_COMMITTED: Final = """\
SELECT o.*
FROM {relation} AS o
JOIN (
    SELECT max(n.commit_seq) AS commit_seq
    FROM {relation} AS n
    GROUP BY n.group, n.topic_id, n.partition
) AS newest ON o.commit_seq = newest.commit_seq
WHERE o.offset IS NOT NULL"""

_TRANSACTIONS: Final = """\
SELECT t.*
FROM {relation} AS t
JOIN (
    SELECT max(n.commit_seq) AS commit_seq
    FROM {relation} AS n
    GROUP BY n.transactional_id, n.slot
) AS newest ON t.commit_seq = newest.commit_seq
WHERE t.epoch IS NOT NULL"""

_END_OFFSETS: Final = """\
SELECT '{topic}' AS topic, r.partition, max(r.offset) + 1 AS end_offset
FROM {relation} AS r
GROUP BY r.partition"""

_LAG: Final = """\
WITH ends AS (
{ends}
)
SELECT
    c.group AS group_id,
    c.topic,
    c.partition,
    c.offset AS next_offset,
    e.end_offset,
    CASE WHEN e.end_offset < c.offset THEN 0 ELSE e.end_offset - c.offset END AS lag
FROM {committed} AS c
LEFT JOIN ends AS e ON e.topic = c.topic AND e.partition = c.partition
ORDER BY group_id, c.topic, c.partition"""


def _checked(relation: str) -> str:
    if not _RELATION.fullmatch(relation):
        raise ValueError(f"{relation!r} is no plain name, of letters, digits and _, and is not quoted")
    return relation


def committed_offsets(relation: str) -> str:
    """Query for the latest row of each key of `__consumer_offsets`, without deleted keys; `relation` is its name."""
    return _COMMITTED.format(relation=_checked(relation))


#: The view `committed_offsets`, where the table is known as `consumer_offsets`.
COMMITTED_OFFSETS: Final = committed_offsets("consumer_offsets")


def last_transactions(relation: str) -> str:
    """Query for the latest rows of `__transactions`: the state of each transactional id."""
    return _TRANSACTIONS.format(relation=_checked(relation))


def group_lag(topics: Mapping[str, str], *, committed: str = "committed_offsets") -> str:
    """Query for the lag of each group by its committed offsets; `topics` maps topics to relations, plain or quoted.

    `end_offset` and `lag` are null if a topic is not among them, or its table has no rows of the partition.
    """
    if not topics:
        raise ValueError("a lag needs the tables of one topic or more")
    ends = "\nUNION ALL\n".join(_end_offsets(topic, relation) for topic, relation in topics.items())
    return _LAG.format(ends=_indented(ends), committed=committed)


def _end_offsets(topic: str, relation: str) -> str:
    check_topic_name(topic)
    return _END_OFFSETS.format(topic=topic, relation=_checked(relation))


def _indented(text: str) -> str:
    return "".join(f"    {line}\n" for line in text.splitlines()).rstrip("\n")
