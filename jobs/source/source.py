"""The data source `lakelog`, as Spark finds it. Knows which reader or writer is for which query; nothing else."""

from __future__ import annotations

import logging
from typing import Final

from pyspark.sql import SparkSession
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)
from pyspark.sql.types import StructType

from jobs.source.columns import check_schema, spark_schema
from jobs.source.declared import BATCH, STREAM
from jobs.source.errors import InvalidOption, SourceError
from jobs.source.options import ReadOptions, notes_on, parse_options, parse_write_options, wants_headers
from jobs.spark.python_choice import use_this_python
from jobs.spark.versions import check_spark

_LOG: Final = logging.getLogger(__name__)
#: Option that Spark adds only when a table is created.
_OF_A_TABLE: Final = "provider"


class LakelogSource(DataSource):
    """`format("lakelog")` of `spark.read`, `spark.readStream`, `frame.write` and `frame.writeStream`."""

    @classmethod
    def name(cls) -> str:
        return "lakelog"

    def schema(self) -> StructType:
        if _OF_A_TABLE in self.options:
            raise SourceError(
                "a table of a catalog cannot be of this format: Spark does not hand a table's options to a source in "
                "Python; CREATE TEMPORARY VIEW … USING lakelog OPTIONS (…) does the same for a session"
            )
        return spark_schema(headers=wants_headers(dict(self.options)))

    def reader(self, schema: StructType) -> DataSourceReader:
        from jobs.source.batch import BatchReader  # noqa: PLC0415 - see above

        check_schema(schema)
        return BatchReader(self._options(BATCH), schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        from jobs.source.stream import StreamReader  # noqa: PLC0415 - see above

        check_schema(schema)
        return StreamReader(self._options(STREAM), schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:  # noqa: FBT001 - Spark's own
        from jobs.source.sink import BatchWriter  # noqa: PLC0415 - see above
        from jobs.source.sink_columns import check_sink_schema  # noqa: PLC0415 - likewise

        if overwrite:
            raise InvalidOption("mode", "a topic can only be appended to")
        options = parse_write_options(dict(self.options), BATCH)
        check_sink_schema(schema, options.topic)
        return BatchWriter(options)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: ARG002, FBT001, N802
        """Return a writer. With the output mode `complete` a batch is the whole result, and appended like any other.

        Spark itself refuses the mode `update`: it does not support it for sources in Python.
        """
        from jobs.source.sink import StreamWriter  # noqa: PLC0415 - see above
        from jobs.source.sink_columns import check_sink_schema  # noqa: PLC0415 - likewise

        options = parse_write_options(dict(self.options), STREAM)
        check_sink_schema(schema, options.topic)
        return StreamWriter(options)

    def _options(self, query: str) -> ReadOptions:
        options = parse_options(dict(self.options), query)
        for note in notes_on(dict(self.options), query):
            _LOG.warning("a query's %s", note)
        return options


def register(spark: SparkSession) -> None:
    """Register the format `lakelog` in a session. Repeating it does no harm.

    Needed if Spark's own search uses another Python, as without an activated environment. NotAvailable if Spark is too
    old.
    """
    check_spark(spark.version)
    use_this_python(spark)
    spark.dataSource.register(LakelogSource)
