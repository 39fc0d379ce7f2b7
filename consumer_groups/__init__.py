"""Who reads what, and how far.

It knows members, generations, assignments and committed offsets, and decides them in pure code whose
decisions `delta_log` makes durable. It must not know HTTP, Spark, or how a table is written. It may import
`delta_log` only.
"""

from lakelog.foundation.extras import check_extra

check_extra("server", "consumer_groups", "pyarrow")
