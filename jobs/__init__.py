"""What runs beside the server on Spark: retention, compaction, and reading a topic as a data source.

A job prints the plan it would execute before it executes it. It knows Spark sessions and tables at rest; it
must not know HTTP routes or the inside of a running server, and it changes a table only through `delta_log`'s
committer. It alone imports pyspark and delta; it may import `consumer_groups` and `delta_log`.
"""

from lakelog.foundation.extras import check_extra

check_extra("jobs", "jobs", "pyarrow")
