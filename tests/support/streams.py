"""Streaming queries of Spark itself, which are begun again where their Python came too late to be heard.

Spark waits ten seconds for a process that it starts, and a busy machine may take as long. Jobs begin again by
themselves; whoever starts a query has to, and nothing was read by then.
"""

from __future__ import annotations

from collections.abc import Callable

from pyspark.errors import StreamingQueryException
from pyspark.sql.streaming import StreamingQuery

from tests.support.serving import wait_for

_TOO_LATE = "failed to connect back"
_SECONDS = 150


def begun(start: Callable[[], StreamingQuery]) -> StreamingQuery:
    """A query that has looked for something to read, or has failed of something else."""
    while True:
        query = start()
        wait_for(lambda query=query: query.recentProgress or not query.isActive, "that a query begins", _SECONDS)
        if _TOO_LATE not in str(query.exception()):
            return query


def ended(start: Callable[[], StreamingQuery]) -> StreamingQuery:
    """A query that has read all there was; what else it failed of is raised."""
    while True:
        query = start()
        try:
            assert query.awaitTermination(_SECONDS)
        except StreamingQueryException as error:
            if _TOO_LATE not in str(error):
                raise
        else:
            return query
