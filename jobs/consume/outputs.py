"""Outputs of a batch of rows: stdout, a Delta table, or a topic. Each of them appends.

With a transaction the rows are stored as a part of it; only a topic supports that.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from delta_log.model.errors import InvalidRequest
from jobs.source.sink_columns import check_sink_schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

__all__ = ["Output", "into_table", "to_stdout", "to_topic"]

#: Takes rows, and the id of a transaction that is to be committed with them.
Output = Callable[["DataFrame", str | None], None]
_TEXT: Final = "string"


def to_stdout(say: Callable[[list[str]], None]) -> Output:
    """Print each row as a line of JSON, with bytes as text."""
    from pyspark.sql import functions  # noqa: PLC0415 - needs Spark

    def put(rows: DataFrame, _: str | None) -> None:
        columns = [
            functions.col(f"`{name}`").cast(_TEXT).alias(name) if kind == "binary" else functions.col(f"`{name}`")
            for name, kind in rows.dtypes
        ]
        lines = rows.select(functions.to_json(functions.struct(*columns)))
        for row in lines.toLocalIterator():
            say([str(row[0])])

    return put


def into_table(path: str) -> Output:
    def put(rows: DataFrame, _: str | None) -> None:
        rows.write.format("delta").mode("append").save(path)

    return put


def to_topic(topic: str, url: str) -> Output:
    """Append the column value, and key, headers and partition if present."""

    def put(rows: DataFrame, transaction: str | None) -> None:
        within = {} if transaction is None else {"transaction": transaction}
        rows.write.format("lakelog").options(server=url, topic=topic, **within).mode("append").save()

    return put


def check_columns(schema: StructType, topic: str) -> None:
    try:
        check_sink_schema(schema, topic)
    except ValueError as error:
        raise InvalidRequest(f"--to {topic}: {error}") from error
