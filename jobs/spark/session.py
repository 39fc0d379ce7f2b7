"""The Spark session of the jobs, if no cluster provides one.

It knows the Spark settings that a topic's tables need, and the folder of Delta's jars. It must not know what a job does
with the session. On Databricks none of this applies: the cluster's session has Spark and Delta already.
"""

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from pyspark.errors import PySparkRuntimeError
from pyspark.sql import SparkSession

from delta_log.model.errors import NotAvailable
from jobs.spark.jars import DELTA_JARS, EXCLUDED_JARS, absent_jars, cache_folder, fetched_by_one
from jobs.spark.java import CURE, ask_java, trouble_of_java
from jobs.spark.jvm import end_launch

__all__ = ["build_session", "plan_settings"]


def plan_settings(*, cache_dir: Path, cores: int, extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """Plan every Spark setting of a session; `extra` overrides. Ivy needs `cache_dir` to be absolute."""
    return {
        "spark.jars.packages": ",".join(DELTA_JARS),
        "spark.jars.excludes": ",".join(EXCLUDED_JARS),
        "spark.jars.ivy": str(cache_dir / "ivy"),
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        # Delta's default of 50 makes the first count of a ten-row table take seconds.
        "spark.databricks.delta.snapshotPartitions": "2",
        "spark.sql.shuffle.partitions": str(cores),
        "spark.sql.sources.parallelPartitionDiscovery.parallelism": "4",
        # With it, VACUUM writes two commits of its own, by rename.
        "spark.databricks.delta.vacuum.logging.enabled": "false",
        "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
        "spark.sql.session.timeZone": "UTC",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.memory": "2g",
        **(extra or {}),
    }


def build_session(
    app_name: str,
    *,
    master: str = "local[*]",
    cache_dir: Path | None = None,
    extra: Mapping[str, str] | None = None,
) -> SparkSession:
    """Start Spark with Delta, or return the session that this process has already.

    The jars are kept in `ivy` of `cache_dir`, else of the folder that LAKELOG_CACHE names, else of lakelog's folder
    among the user's caches.
    `extra` overrides single settings, the driver's memory (`spark.driver.memory`) among them. NotAvailable if no JVM
    starts.
    """
    if master.startswith("local"):
        # Spark's workers would otherwise be the first python3 on PATH, which may lack pyarrow.
        os.environ["PYSPARK_PYTHON"] = sys.executable
    folder = cache_dir.absolute() if cache_dir else cache_folder()
    settings = plan_settings(cache_dir=folder, cores=os.cpu_count() or 1, extra=extra)
    builder = SparkSession.builder.master(master).appName(app_name)
    for name, value in settings.items():
        builder = builder.config(name, value)
    ivy, jars = Path(settings["spark.jars.ivy"]), settings["spark.jars.packages"].split(",")
    with fetched_by_one(ivy, jars):
        try:
            session = builder.getOrCreate()
        except PySparkRuntimeError as error:
            raise NotAvailable(_why_no_jvm(ivy, jars)) from error
        except BaseException as error:
            end_launch(error)
            raise
    session.sparkContext.setLogLevel("ERROR")
    return session


def _why_no_jvm(ivy: Path, jars: Sequence[str]) -> str:
    """Find why no JVM started: Spark only reports that it ended, and Java prints many lines before that."""
    trouble = trouble_of_java(ask_java(), os.environ.get("JAVA_HOME"))
    if trouble is not None:
        return f"{trouble}: {CURE}"
    absent = absent_jars(ivy, jars)
    if absent:
        return f"{' and '.join(absent)} could not be fetched into {ivy}; `lakelog doctor --spark` says what helps"
    return "Java ended before Spark was ready, and said why before this"
