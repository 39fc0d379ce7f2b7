"""Parsing: records of the source as typed rows, or as bad ones; functions from frame to frame. Pure.

    parsed(frame, how)    record, reason, gone, and origin
    good_rows(parsed)     those of the output

`reason` is null for a good record. For a bad one it is the reason, or empty if that is to be found from the value.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention
from pyspark.sql.types import StringType, StructField, StructType

from jobs.materialize.columns import ORIGIN, RAW, aligned, missing, requires
from jobs.materialize.decoding import Wire, decoded
from jobs.materialize.latest_per_key import Place

__all__ = ["Format", "How", "bad_rows", "good_rows", "parsed"]

Format = Literal["json", "avro", "protobuf", "raw"]

_CORRUPT: Final = "_lakelog_corrupt"
_LOST: Final = "_lakelog_lost"
_BEHIND: Final = "~"
_JSON: Final = {
    "mode": "PERMISSIVE",
    "columnNameOfCorruptRecord": _CORRUPT,
    "allowNonNumericNumbers": "false",
    "allowSingleQuotes": "false",
}
_NO_KEY: Final = "the key is null, and records are merged by it"
_NULL_IN_KEY: Final = "is null, and records are merged by it"


@dataclass(frozen=True, slots=True)
class How:
    """Parameters of parsing. `fields`: those of the records; `columns`: the same with the table's types.

    Rows are merged `by` these columns, if any. If that is the record's key, a null value is not a bad record.
    """

    format: Format
    fields: StructType
    columns: StructType
    wire: Wire | None = None
    by: tuple[str, ...] = ()

    @property
    def is_raw(self) -> bool:
        return self.format == "raw"

    @property
    def place(self) -> Place:
        """Columns of a record's timestamp, topic, partition and offset."""
        if self.is_raw:
            return ("timestamp", "topic", "partition", "offset")
        return ("_timestamp", "_topic", "_partition", "_offset")

    @property
    def by_key(self) -> bool:
        return self.by == (self.key,)

    @property
    def key(self) -> str:
        return "key" if self.is_raw else "_key"


def parsed(frame: DataFrame, how: How, given_up: DataFrame | None = None) -> DataFrame:
    """Parse records; those at positions in `given_up` are bad, whatever their content."""
    value = F.col("value")
    is_lost = F.lit(False)  # noqa: FBT003 - a column that is false
    if given_up is not None:
        lost = given_up.withColumn(_LOST, F.lit(True))  # noqa: FBT003 - likewise
        frame, is_lost = frame.join(F.broadcast(lost), ["partition", "offset"], "left"), F.col(_LOST).isNotNull()
    gone = value.isNull() & ~is_lost if how.by_key else F.lit(False)  # noqa: FBT003 - likewise
    if how.is_raw:
        found = frame.withColumn("record", F.struct(*RAW.names)).withColumn("reason", F.lit(None).cast("string"))
    elif how.wire is not None:
        found = _decoded(frame, how.wire)
    else:
        found = _from_json(frame, how.fields)
    reason = _reason_to_merge(how, F.when(~gone, F.col("reason")))
    reason = F.when(is_lost, F.coalesce(reason, F.lit(""))).otherwise(reason)
    record = F.col("record")
    if not how.is_raw:
        record = aligned(record, found.schema["record"].dataType, how.columns)
    is_bad = F.col("reason").isNotNull()
    rows = found.withColumn("reason", reason).withColumn("gone", gone)
    return rows.select(
        F.when(~is_bad, record).alias("record"),
        "reason",
        "gone",
        "topic",
        "partition",
        "offset",
        "timestamp",
        "key",
        F.when(is_bad, value).alias("value"),
        F.when(is_bad, F.col("headers")).alias("headers"),
    )


def good_rows(rows: DataFrame, how: How) -> DataFrame:
    """Good rows with the columns of the output, and `gone`: the key of the row is to be deleted."""
    good = rows.where(F.col("reason").isNull())
    if how.is_raw:
        return good.select("record.*", "gone")
    record = [F.col("record").getField(field.name).alias(field.name) for field in how.columns.fields]
    return good.select(*record, *(F.col(name[1:]).alias(name) for name in ORIGIN.names), "gone")


def bad_rows(rows: DataFrame) -> DataFrame:
    """Bad rows, in the order of each partition."""
    bad = rows.where(F.col("reason").isNotNull()).drop("record", "gone", "topic")
    return bad.orderBy("partition", "offset")


def _from_json(frame: DataFrame, fields: StructType) -> DataFrame:
    """Parse JSON as Spark does, the last of two fields of one name included, but refuse text after the first value."""
    text = F.try_validate_utf8(F.col("value").cast("string"))
    schema = StructType([*fields.fields, StructField(_CORRUPT, StringType())])
    found = frame.withColumn("record", F.from_json(text, schema, _JSON))
    record = F.col("record")
    with_more = F.concat(F.lit("["), text, F.lit(f',"{_BEHIND}"]'))
    is_one = F.get_json_object(with_more, "$[1]").eqNullSafe(F.lit(_BEHIND))
    is_bad = record.isNull() | record.getField(_CORRUPT).isNotNull() | ~is_one
    if requires(fields):
        is_bad = is_bad | missing(record, fields)
    return found.withColumn("reason", F.when(is_bad, F.lit("")))


def _decoded(frame: DataFrame, wire: Wire) -> DataFrame:
    found = frame.withColumn("found", decoded(F.col("value"), wire))
    return found.withColumn("record", F.col("found.record")).withColumn("reason", F.col("found.reason"))


def _reason_to_merge(how: How, reason: Column) -> Column:
    if how.by_key:
        return F.when(F.col("key").isNull(), F.lit(_NO_KEY)).otherwise(reason)
    for name in how.by:
        is_null = F.col("record").getField(name).isNull()
        reason = F.coalesce(reason, F.when(is_null, F.lit(f"{name} {_NULL_IN_KEY}")))
    return reason
