"""A session with the format `lakelog` registered, independent of the Python that Spark would use to find it."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import SparkSession

from jobs.source.source import register

__all__ = ["session"]


def session(
    app_name: str = "lakelog", *, master: str = "local[*]", extra: Mapping[str, str] | None = None
) -> SparkSession:
    """Return a Spark session with the format `lakelog` and Delta, whichever Python is first in the path.

    An existing session of this process is used, and gets the format. `extra`: settings of Spark. NotAvailable if no JVM
    starts.
    """
    from jobs.spark.session import build_session  # noqa: PLC0415 - workers import this module, and need no session

    spark = build_session(app_name, master=master, extra=extra)
    register(spark)
    return spark
