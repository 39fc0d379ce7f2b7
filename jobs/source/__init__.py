"""Topics as a data source of Spark, with the columns and options of Spark's own source for Kafka.

`register(spark)` makes `lakelog` a format of a session. Of the modules here `positions`, `values`, `declared`,
`options`, `planning` and `columns` decide; `tables`, `server`, `ground` and `slices` do; `batch`, `stream` and `source`
are what Spark calls. Must not know the inside of a server, or anything of FastAPI.
"""

from jobs.source.source import LakelogSource, register

__all__ = ["LakelogSource", "register"]
