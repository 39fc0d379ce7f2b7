"""A log whose groups have been through a lot, and what each engine of SQL says of them."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

import duckdb
import pyarrow as pa
from deltalake import DeltaTable, QueryBuilder

from consumer_groups.coordinator.coordinator import Coordinator
from consumer_groups.coordinator.topic_watch import LogOffsets
from consumer_groups.decisions.commits import Commit, Commitment
from consumer_groups.decisions.lag import measure_progress
from consumer_groups.decisions.membership import Leave
from consumer_groups.model.assignment import TopicPartition
from consumer_groups.sql.views import COMMITTED_OFFSETS, group_lag
from delta_log import Log
from tests.support.coordinating import join, put
from tests.support.keyed_rows import compact

OFFSETS: Final = "__consumer_offsets"
#: The topics, and what they are called in SQL: not every name of a topic is a word there.
TOPICS: Final = {"orders": "orders", "pay-ments.eu": "payments", "short-lived": "short_lived"}
#: A group whose name has what a text of SQL could trip over.
AUDIT: Final = 'it\'s "au/dit" ü'
LAG: Final = group_lag(TOPICS)
VIEW: Final = """
    SELECT c.group AS group_id, c.topic, c.partition, c.offset AS next_offset, c.metadata, c.generation, c.committed_at
    FROM committed_offsets AS c
    ORDER BY group_id, c.topic, c.partition"""
Rows = list[tuple[Any, ...]]


async def make_topics(log: Log, groups: Coordinator) -> None:
    for topic, partitions in (("orders", 3), ("pay-ments.eu", 1), ("short-lived", 1)):
        log.create_topic(topic, partitions)
        for number in range(partitions):
            put(log, topic, number, *[b"x"] * (5 + number))
    await groups.topics_changed()


async def commit(groups: Coordinator, group: str, member: str, topic: str, metadata: str = "", **at: int) -> None:
    """`p0=3`: of partition 0 the next to read is 3."""
    given = {TopicPartition(topic, int(name[1:])): Commitment(offset, metadata) for name, offset in at.items()}
    await groups.commit(group, Commit(member, given))


async def live_through_much(log: Log, groups: Coordinator) -> None:
    """Several commits, groups that end, a topic that is deleted and made anew; some of it compacted, some not."""
    await make_topics(log, groups)
    for group in ("billing", AUDIT, "ended"):
        await join(groups, "one", *TOPICS, group=group)
    for offset in range(1, 4):
        await commit(groups, "billing", "one", "orders", f"at {offset}", p0=offset, p1=2 * offset, p2=0)
        log.flush()
    await commit(groups, AUDIT, "one", "pay-ments.eu", "ü \"'", p0=5)
    await commit(groups, "ended", "one", "orders", p0=5)
    await commit(groups, "billing", "one", "short-lived", p0=4)
    log.flush()
    compact(log, OFFSETS)
    await groups.leave("ended", Leave("one"))
    await groups.delete("ended")
    log.delete_topic("short-lived")
    await groups.topics_changed()
    log.flush()
    log.create_topic("short-lived", 1)
    put(log, "short-lived", 0, b"x")
    await groups.topics_changed()
    await commit(groups, AUDIT, "one", "short-lived", p0=1)
    await commit(groups, "billing", "one", "orders", "last", p0=2)
    put(log, "orders", 1, b"more", b"and more")
    log.flush()


async def lags_of(log: Log, groups: Coordinator) -> Rows:
    """What the coordinator says of all that is committed."""
    rows: Rows = []
    for summary in await groups.list_groups():
        progress = (await groups.describe(summary.group)).reply.progress
        rows += [
            (summary.group, *each.partition, each.committed.next_offset, each.offsets.end_offset, each.lag)
            for each in measure_progress(progress, LogOffsets(log))
            if each.committed is not None and each.offsets is not None
        ]
    return sorted(rows)


async def offsets_of(groups: Coordinator) -> Rows:
    """What the coordinator says is committed, with the time in milliseconds."""
    described = [await groups.describe(summary.group) for summary in await groups.list_groups()]
    return sorted(
        (each.group, each.topic, each.partition, each.next_offset, each.metadata, each.generation, each.committed_at_ms)
        for group in described
        for each in group.reply.committed
    )


def tables_of(log: Log) -> dict[str, DeltaTable]:
    """By the names that they have in SQL."""
    names = {OFFSETS: "consumer_offsets"} | TOPICS
    return {relation: DeltaTable(f"{log.location}/topics/{name}") for name, relation in names.items()}


def by_datafusion(tables: Mapping[str, DeltaTable], query: str) -> Rows:
    builder = QueryBuilder()
    for relation, table in tables.items():
        builder = builder.register(relation, table)
    builder.execute(f"CREATE VIEW committed_offsets AS {COMMITTED_OFFSETS}").read_all()
    return as_rows(pa.table(builder.execute(query).read_all()))


def by_duckdb(tables: Mapping[str, DeltaTable], query: str) -> Rows:
    with duckdb.connect() as connection:
        for relation, table in tables.items():
            files = f"read_parquet({table.file_uris()}, hive_partitioning = true)"
            connection.execute(f"CREATE VIEW {relation} AS SELECT * FROM {files}")
        connection.execute(f"CREATE VIEW committed_offsets AS {COMMITTED_OFFSETS}")
        return as_rows(connection.sql(query).to_arrow_table())


def as_rows(table: pa.Table) -> Rows:
    """Sorted; a time as milliseconds."""
    return sorted(zip(*(map(_plain, column.to_pylist()) for column in table.columns), strict=True))


def _plain(value: Any) -> Any:
    return round(value.timestamp() * 1000) if isinstance(value, datetime) else value


ENGINES: Final = {"DataFusion": by_datafusion, "DuckDB": by_duckdb}
