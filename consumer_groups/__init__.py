"""Consumer groups: which member reads which partitions, and how far it is.

It knows members, generations, assignments and committed offsets, and decides them in pure code whose
decisions `delta_log` makes durable. It must not know HTTP, Spark, or how a table is written. It may import
`delta_log` only.
"""

from lakelog.foundation.extras import check_extra

check_extra("server", "consumer_groups", "pyarrow")
