"""What is counted about the tier."""

from __future__ import annotations

from ingest_api.call import Reply, Scope


class Watch:
    """Used by the loop alone: plain numbers, read when somebody asks for the metrics."""

    def answered(self, name: str, scope: Scope, reply: Reply, request_id: bytes, seconds: float) -> None:
        """A request was answered."""

    def gone(self, name: str) -> None:
        """A client went away before it had sent its whole request."""

    def produced(self, topic: str, records: int, size: int) -> None:
        """Records were acknowledged."""

    def consumed(self, topic: str, records: int, size: int) -> None:
        """Records were given to a reader."""
