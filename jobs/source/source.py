"""The data source `lakelog`, as Spark finds it. Knows which reader answers what; nothing else."""

from __future__ import annotations

from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader
from pyspark.sql.types import StructType

from jobs.source.batch import BatchReader
from jobs.source.columns import check_schema, spark_schema
from jobs.source.options import BATCH, STREAM, parse_options, wants_headers
from jobs.source.stream import StreamReader


class LakelogSource(DataSource):
    """`spark.read.format("lakelog")` and `spark.readStream.format("lakelog")`."""

    @classmethod
    def name(cls) -> str:
        return "lakelog"

    def schema(self) -> StructType:
        return spark_schema(headers=wants_headers(dict(self.options)))

    def reader(self, schema: StructType) -> DataSourceReader:
        check_schema(schema)
        return BatchReader(parse_options(dict(self.options), BATCH), schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        check_schema(schema)
        return StreamReader(parse_options(dict(self.options), STREAM), schema)


def register(spark: SparkSession) -> None:
    """Have a session know the format `lakelog`. Once for each session; again does no harm."""
    spark.dataSource.register(LakelogSource)
