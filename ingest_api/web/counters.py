"""Counters of the HTTP tier, written by the loop alone: plain numbers, read when metrics are requested.

Every request passes here, so it takes no lock and makes no label: it only looks up and adds.
"""

from __future__ import annotations

import time
from bisect import bisect_left
from collections.abc import Iterable, Mapping
from types import TracebackType
from typing import Final, Literal, Protocol

from delta_log.runtime.meters import Histogram
from ingest_api.web.access_log import SLOW_S, Access, AccessLog
from ingest_api.web.request import Reply, Scope

#: State of a server: it recovers before it serves, and drains before it ends.
State = Literal["recovering", "serving", "draining"]

MOST_TOPICS: Final = 1000
SECONDS_BOUNDS: Final = (
    0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0,
)  # fmt: skip


class Wire(Protocol):
    """Counters of connections, kept by `http1`."""

    @property
    def open(self) -> int: ...
    @property
    def accepted(self) -> int: ...
    @property
    def bytes_in(self) -> int: ...
    @property
    def bytes_out(self) -> int: ...
    @property
    def failed(self) -> int: ...
    @property
    def refused(self) -> Mapping[str, int]: ...
    @property
    def cut(self) -> Mapping[str, int]: ...


class RouteCounts:
    __slots__ = ("gone", "seconds", "statuses")

    def __init__(self) -> None:
        self.statuses: dict[int, int] = {}
        self.seconds = Histogram(SECONDS_BOUNDS)
        self.gone = 0


class TopicCounts:
    __slots__ = ("bytes_in", "bytes_out", "records_in", "records_out")

    def __init__(self) -> None:
        self.records_in = self.bytes_in = self.records_out = self.bytes_out = 0


class Polling:
    """Counts readers that wait for records: used with `with`."""

    __slots__ = ("open",)

    def __init__(self) -> None:
        self.open = 0

    def __enter__(self) -> None:
        self.open += 1

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.open -= 1


class RequestCounters:
    """`state` is set where the server is started and stopped. Topics beyond `most_topics` are counted as one."""

    def __init__(
        self, *, wire: Wire | None = None, access: AccessLog | None = None, most_topics: int = MOST_TOPICS
    ) -> None:
        self.state: State = "serving"
        self.began = time.monotonic()
        self.wire = wire
        self.access = access
        self.most_topics = most_topics
        self.polling = Polling()
        self.routes: dict[str, RouteCounts] = {}
        self.topics: dict[str, TopicCounts] = {}
        self.other_topics = TopicCounts()

    def answered(self, name: str, scope: Scope, reply: Reply, request_id: bytes, seconds: float) -> None:
        """Count an answered request."""
        try:
            route = self.routes[name]
        except KeyError:
            route = self.routes[name] = RouteCounts()
        status, histogram = reply.status, route.seconds
        try:
            route.statuses[status] += 1
        except KeyError:
            route.statuses[status] = 1
        histogram.counts[bisect_left(SECONDS_BOUNDS, seconds)] += 1
        histogram.total += seconds
        access = self.access
        if access is not None and (
            access.everything or status >= 400 or (seconds > SLOW_S and not _took_its_time(scope, reply))
        ):
            access.add(_describe(name, scope, reply, request_id, seconds))

    def gone(self, name: str) -> None:
        """Count a client that disconnected before it had sent its whole request."""
        route = self.routes.get(name)
        if route is None:
            route = self.routes[name] = RouteCounts()
        route.gone += 1

    def produced(self, topic: str, records: int, size: int) -> None:
        """Count acknowledged records."""
        counts = self.topics.get(topic) or self._new_topic(topic)
        counts.records_in += records
        counts.bytes_in += size

    def consumed(self, topic: str, records: int, size: int) -> None:
        """Count records given to a reader."""
        counts = self.topics.get(topic) or self._new_topic(topic)
        counts.records_out += records
        counts.bytes_out += size

    def forget_topics(self, gone: Iterable[str]) -> None:
        """Drop the counters of deleted topics, which frees their places. Called by any thread."""
        for topic in gone:
            self.topics.pop(topic, None)

    def _new_topic(self, topic: str) -> TopicCounts:
        if len(self.topics) >= self.most_topics:
            return self.other_topics
        counts = self.topics[topic] = TopicCounts()
        return counts


def _took_its_time(scope: Scope, reply: Reply) -> bool:
    """True if the client asked for an answer that takes long: a stream, or one that waits."""
    query: bytes = scope.get("query_string", b"")
    return b"timeout=" in query or b"wait=" in query or reply.content_type.startswith(b"text/event-stream")


def _describe(name: str, scope: Scope, reply: Reply, request_id: bytes, seconds: float) -> Access:
    client = scope.get("client")
    return Access(
        time.time(),
        scope["method"],
        scope["raw_path"],
        scope.get("query_string", b""),
        reply.status,
        seconds,
        len(reply.body) if isinstance(reply.body, bytes) else None,
        "-" if not client else f"{client[0]}:{client[1]}",
        name,
        request_id,
    )
