"""HTTP/1.1 and 1.0 as bytes on connections, with deadlines, bounds and strictness.

It knows sockets, and ASGI as the way to an app. It must not know routes, the log, or what an app does.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from ingest_api.http1.connection import Connection
from ingest_api.http1.counts import WireCounts
from ingest_api.http1.limits import WireLimits
from ingest_api.http1.server_state import Wire

__all__ = ["Connection", "WireCounts", "WireLimits", "protocol_class"]


def protocol_class(
    limits: WireLimits | None = None,
    counts: WireCounts | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> type[Connection]:
    """Return a class for `uvicorn.Config(http=…)`: one per server, as it holds the state that its connections share."""
    shared = Wire(limits or WireLimits(), counts or WireCounts(), clock)

    class BoundConnection(Connection):
        __slots__ = ()
        wire = shared

    return BoundConnection
