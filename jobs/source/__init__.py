"""Topics as a data source of Spark, with the columns and options of Spark's own source for Kafka.

`source.register(spark)` makes `lakelog` a format of a session. Of the modules here `positions`, `values`, `declared`,
`options`, `planning` and `columns` decide; `tables`, `server`, `record_source`, `slices` and `worker_latency` do;
`batch`, `stream` and `source` are what Spark calls. Must not know the inside of a server, or anything of FastAPI.

Nothing is imported here: jobs need it when they run, and two that begin at once in one process, while this package
waits for its parts and each of these for the package, would find some of them half done.
"""
