"""The column by which a function gives up records, and its evaluation.

    orders.select("key", …, dead_letter(when(col("item").isNull(), "no item")))

A row with a reason is not output; its record becomes a dead letter. It knows frames, and no server.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from delta_log.model.errors import InvalidRequest
from jobs.consume.blame import blamed
from jobs.foundation.result import Unfinished
from jobs.groups.dead_letters import GivenUp
from jobs.source.positions import Positions, TopicPartition

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import StructType

__all__ = ["COLUMN", "computed", "dead_letter", "find_given_up", "gives_up", "rows_of"]

COLUMN: Final = "dead_letter"
_PLACE: Final = ("topic", "partition", "offset")
_KIND: Final = "struct<topic:string,partition:int,offset:bigint,reason:string>"


def dead_letter(reason: Column | str) -> Column:
    """Column that gives up records. `reason`: a column, or its name, that is null for all other records.

    The frame must still have the topic, partition and offset of the records.
    """
    from pyspark.sql import functions as F  # noqa: N812, PLC0415 - as Spark's own pages have it, where Spark is

    why = (F.col(reason) if isinstance(reason, str) else reason).cast("string")
    return F.when(why.isNotNull(), F.struct(*_PLACE, why.alias("reason"))).alias(COLUMN)


def gives_up(schema: StructType) -> bool:
    """Return whether a frame has the column; InvalidRequest if one of that name has another type."""
    found = [field.dataType.simpleString() for field in schema.fields if field.name == COLUMN]
    if found and found != [_KIND]:
        raise InvalidRequest(f"a column {COLUMN!r} is made by pyspark_lakelog.dead_letter, and is not {found[0]:.80}")
    return bool(found)


@contextmanager
def computed(frame: DataFrame) -> Generator[DataFrame]:
    """Fix the rows of a frame, for several reads, and even if executors are lost.

    Recomputed, a record might first be a letter and then a row, or neither. Cached rows could be recomputed.
    """
    with blamed():
        kept = frame.localCheckpoint(eager=True)
    try:
        yield kept
    finally:
        java: Any = kept._jdf  # noqa: SLF001  # pyright: ignore[reportPrivateUsage] - else it is freed late
        java.queryExecution().logical().rdd().unpersist(False)  # noqa: FBT003 - without waiting


def rows_of(frame: DataFrame) -> DataFrame:
    return frame.where(f"{COLUMN} IS NULL").drop(COLUMN)


def find_given_up(frame: DataFrame, before: Positions, ends: Mapping[TopicPartition, int]) -> Iterator[GivenUp]:
    """Find the records given up, in order, of a batch from `before` to `ends`.

    Those below `before` were given up with an earlier commit; Unfinished if one was never in the batch.
    """
    letters = frame.where(f"{COLUMN} IS NOT NULL").select(f"{COLUMN}.*").orderBy(*_PLACE)
    row: Any
    for row in letters.toLocalIterator():
        topic, partition, offset, reason = row
        of = TopicPartition(topic, partition)
        if of not in ends or offset is None or not 0 <= offset < ends[of]:
            raise Unfinished(f"the batch gives up {topic}-{partition} at {offset}, which is not in it")
        if offset >= before.get(of, 0):
            yield GivenUp(of, offset, reason)
