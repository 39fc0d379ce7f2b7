"""Topics as a data source of Spark, with the columns and options of Spark's own source for Kafka.

`source.register(spark)` makes `lakelog` a format of a session. `positions`, `values`, `declared`, `options`, `planning`
and `columns` are pure; `tables`, `server`, `record_source`, `slices` and `worker_latency` have effects; `batch`,
`stream` and `source` are called by Spark. Must not know the inside of a server, or anything of FastAPI.

Nothing is imported here: jobs import its modules at run time, and two jobs that start at once in one process could see
partially imported modules, as the package would wait for its modules, and each of these for the package.
"""
