"""A session that knows the format `lakelog`, whichever Python Spark would have asked for it."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import SparkSession

from jobs.source.source import register

__all__ = ["session"]


def session(
    app_name: str = "lakelog", *, master: str = "local[*]", extra: Mapping[str, str] | None = None
) -> SparkSession:
    """A Spark session that knows the format `lakelog` and Delta, whichever Python the path has first.

    Where this process has one already, that one, which knows the format from now on. `extra` are settings of Spark.
    NotAvailable where no JVM gets ready.
    """
    from jobs.spark.session import build_session  # noqa: PLC0415 - workers, which import this, need none

    spark = build_session(app_name, master=master, extra=extra)
    register(spark)
    return spark
