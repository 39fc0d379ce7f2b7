"""Latest row of each key, and the order of rows that decides it: pure.

In a partition the higher offset wins. A key in several partitions is a mistake of its producers, without an order:
there the later timestamp wins, and of equal ones the higher partition. The same holds for several topics in one table.
A row without an origin was not made from a record, and loses to any other.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

__all__ = ["Place", "is_newer", "newest_rows", "quoted"]

#: The columns of a row's timestamp, topic, partition and offset.
Place = tuple[str, str, str, str]


def newest_rows(rows: DataFrame, by: Sequence[str], place: Place) -> DataFrame:
    """Reduce rows of one topic to the latest of each key."""
    timestamp, _, partition, offset = place
    keys = [F.col(quoted(name)) for name in by]
    whole = F.struct(*(F.col(quoted(name)) for name in rows.columns)).alias("row")
    of_partition = rows.groupBy(*keys, F.col(quoted(partition))).agg(F.max_by(whole, quoted(offset)).alias("row"))
    order = F.struct(F.col("row").getField(timestamp), F.col("row").getField(partition))
    of_all = of_partition.groupBy(*keys).agg(F.max_by("row", order).alias("row"))
    return of_all.select("row.*")


def is_newer(new: str, old: str, place: Place) -> str:
    """SQL condition on the aliases of two rows, of which the old one may have nulls in its origin."""
    timestamp, topic, partition, offset = map(quoted, place)
    # A struct with a null compares as less.
    when = ", ".join(f"{{0}}.{name}" for name in (timestamp, topic, partition))
    return (
        f"(CASE WHEN {new}.{topic} = {old}.{topic} AND {new}.{partition} = {old}.{partition} "
        f"THEN {new}.{offset} > COALESCE({old}.{offset}, -1) "
        f"ELSE STRUCT({when.format(new)}) > STRUCT({when.format(old)}) END)"
    )


def quoted(name: str) -> str:
    return f"`{name.replace('`', '``')}`"
