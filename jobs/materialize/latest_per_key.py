"""Of each key the row that counts, and which of two rows that is: pure.

In a partition the higher offset counts. A key in several partitions is an accident of who produced it, and has no
order: there the later time counts, and of equal times the higher partition. So it is with several topics in one table.
A row that does not say where it came from was not made of a record, and gives way to any.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as Spark's own pages have it

__all__ = ["Place", "is_newer", "newest_rows", "quoted"]

#: The columns of a row's timestamp, topic, partition and offset.
Place = tuple[str, str, str, str]


def newest_rows(rows: DataFrame, by: Sequence[str], place: Place) -> DataFrame:
    """Of rows of one topic."""
    timestamp, _, partition, offset = place
    keys = [F.col(quoted(name)) for name in by]
    whole = F.struct(*(F.col(quoted(name)) for name in rows.columns)).alias("row")
    of_partition = rows.groupBy(*keys, F.col(quoted(partition))).agg(F.max_by(whole, quoted(offset)).alias("row"))
    order = F.struct(F.col("row").getField(timestamp), F.col("row").getField(partition))
    of_all = of_partition.groupBy(*keys).agg(F.max_by("row", order).alias("row"))
    return of_all.select("row.*")


def is_newer(new: str, old: str, place: Place) -> str:
    """As a condition in SQL on the aliases of two rows, of which the old one may have nulls in its place."""
    timestamp, topic, partition, offset = map(quoted, place)
    # Of two structs that is the lesser which has the first null.
    when = ", ".join(f"{{0}}.{name}" for name in (timestamp, topic, partition))
    return (
        f"(CASE WHEN {new}.{topic} = {old}.{topic} AND {new}.{partition} = {old}.{partition} "
        f"THEN {new}.{offset} > COALESCE({old}.{offset}, -1) "
        f"ELSE STRUCT({when.format(new)}) > STRUCT({when.format(old)}) END)"
    )


def quoted(name: str) -> str:
    return f"`{name.replace('`', '``')}`"
