"""State that all connections of one server share."""

from __future__ import annotations

from collections.abc import Callable

from ingest_api.http1.asgi import Headers
from ingest_api.http1.counts import WireCounts
from ingest_api.http1.deadline_sweep import Sweep
from ingest_api.http1.limits import WireLimits


class Wire:
    """Used by one event loop."""

    def __init__(self, limits: WireLimits, counts: WireCounts, clock: Callable[[], float]) -> None:
        self.limits = limits
        self.counts = counts
        self.sweep = Sweep(limits, clock)
        self.draining = False
        self._rendered_of: Headers | None = None
        self._rendered = b""

    def render(self, default_headers: Headers) -> bytes:
        """Render the fields of every answer. Cached by identity: the server makes a new list when they change."""
        if default_headers is not self._rendered_of:
            self._rendered = b"".join([b"%b: %b\r\n" % field for field in default_headers])
            self._rendered_of = default_headers
        return self._rendered
