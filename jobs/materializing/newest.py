"""Of each key the row that counts, and which of two rows that is: pure.

In a partition the higher offset counts. A key in several partitions is an accident of who produced it, and has no
order: there the later time counts, and of equal times the higher partition.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as Spark's own pages have it

__all__ = ["is_newer", "newest_rows", "quoted"]


def newest_rows(rows: DataFrame, by: Sequence[str], place: tuple[str, str, str]) -> DataFrame:
    """`place` names the columns of timestamp, partition and offset."""
    timestamp, partition, offset = place
    keys = [F.col(quoted(name)) for name in by]
    whole = F.struct(*(F.col(quoted(name)) for name in rows.columns)).alias("row")
    of_partition = rows.groupBy(*keys, F.col(quoted(partition))).agg(F.max_by(whole, quoted(offset)).alias("row"))
    order = F.struct(F.col("row").getField(timestamp), F.col("row").getField(partition))
    of_all = of_partition.groupBy(*keys).agg(F.max_by("row", order).alias("row"))
    return of_all.select("row.*")


def is_newer(new: str, old: str, place: tuple[str, str, str]) -> str:
    """As a condition in SQL on the aliases of two rows."""
    timestamp, partition, offset = map(quoted, place)
    return (
        f"(CASE WHEN {new}.{partition} = {old}.{partition} THEN {new}.{offset} > {old}.{offset} "
        f"WHEN {new}.{timestamp} = {old}.{timestamp} THEN {new}.{partition} > {old}.{partition} "
        f"ELSE {new}.{timestamp} > {old}.{timestamp} END)"
    )


def quoted(name: str) -> str:
    return f"`{name.replace('`', '``')}`"
