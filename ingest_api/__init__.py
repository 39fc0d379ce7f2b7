"""The HTTP edge of the log.

It knows requests and replies: routes parse, make one call into the log or the groups, and convert the answer;
one table maps errors to status codes. It must not know how records are stored, decide offsets, or hold state
of its own. It alone imports fastapi; it may import `consumer_groups` and `delta_log`, and nothing imports it
but the command line.
"""

from lakelog.foundation.extras import check_extra

check_extra("server", "ingest_api", "fastapi", "prometheus_client", "pyarrow", "uvicorn", "httptools")
