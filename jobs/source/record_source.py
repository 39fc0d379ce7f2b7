"""Source of records: a root's tables, a server, or both. Knows how to query each; decides nothing.

With both, topics and offsets are the server's, and records beyond the tables come from it. They must be of one cluster.
"""

from __future__ import annotations

import time
from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager, suppress
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Final

from jobs.source.errors import InvalidOption, UnknownTopics
from jobs.source.options import ReadOptions
from jobs.source.planning import Slice, Span, TopicView, check_there, choose_partitions, choose_topics, plan_slice
from jobs.source.positions import Range, Times, TopicPartition
from jobs.source.tables import Tables

if TYPE_CHECKING:
    from jobs.source.server import Server

#: How long new topics or partitions may remain unnoticed.
_DESCRIBE_EVERY_S: Final = 1.0


class RecordSource:
    """Source of records, opened in the process that uses it; for one thread."""

    def __init__(self, options: ReadOptions) -> None:
        self._chosen = options.chosen
        self._place = options.place
        self._tables = Tables(options.path) if options.path else None
        self._server = _server(options.server, options.patience_ms) if options.server else None
        self._views: dict[str, TopicView] = {}
        self._described = 0.0
        if self._tables is not None and self._server is not None:
            _check_one_cluster(self._tables, self._server)

    @property
    def _says(self) -> Server | Tables:
        """The authority for topics and offsets: the server, if there is one."""
        says = self._server or self._tables
        assert says is not None  # noqa: S101 - options without both are refused
        return says

    def partitions(self) -> list[TopicPartition]:
        """Partitions to read, as of about now; a named topic that does not exist is an error."""
        if not self._described or time.monotonic() - self._described >= _DESCRIBE_EVERY_S:
            self._describe()
        counts = {topic: view.partitions for topic, view in self._views.items()}
        return choose_partitions(self._chosen, counts, self._place)

    def ranges(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, Range]:
        """Ranges of partitions that still exist."""
        found: dict[TopicPartition, Range] = {}
        for each in partitions:
            with self._may_be_gone(each.topic):
                found[each] = self._says.range(each.topic, each.partition)
        return found

    def ends(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """End offsets of partitions that still exist."""
        found: dict[TopicPartition, int] = {}
        for topic, few in groupby(sorted(partitions), itemgetter(0)):
            with self._may_be_gone(topic):
                ends = self._says.ends(topic, self._views[topic].partitions)
                found |= {each: ends[each.partition] for each in few if each.partition in ends}
        return found

    def at_times(self, times: Times) -> dict[TopicPartition, int | None]:
        return {each: self._says.offset_at(each.topic, each.partition, time_ms) for each, time_ms in times.items()}

    def slices(self, spans: Sequence[Span]) -> list[Slice]:
        """Plan slices as of now. Tables are known up to a second late, so they may be of a topic replaced since."""
        if self._server is not None and self._tables is not None:
            for topic in {span.of.topic for span in spans}:
                # If the topic is gone by now, the records in its known tables are still read.
                with suppress(UnknownTopics):
                    self._views[topic] = self._server.describe(topic)
        return [self._slice(span) for span in spans]

    def _slice(self, span: Span) -> Slice:
        view = self._views.get(span.of.topic) or self._says.describe(span.of.topic)
        if self._tables is None:
            return plan_slice(span, view.timestamp_type, None)
        topic_id = None if self._server is None else view.id
        return plan_slice(span, view.timestamp_type, self._tables.tabled(span), topic_id)

    def close(self) -> None:
        for part in (self._tables, self._server):
            if part is not None:
                part.close()

    def _describe(self) -> None:
        is_open = not isinstance(self._chosen, tuple | frozenset)
        topics = choose_topics(self._chosen, self._says.topics() if is_open else ())
        if not is_open and not self._described:
            check_there(topics, self._says.topics(), self._place)
        self._views = {}
        for topic in topics:
            with self._may_be_gone(topic):
                self._views[topic] = self._says.describe(topic)
        self._described = time.monotonic()

    @contextmanager
    def _may_be_gone(self, topic: str) -> Generator[None]:
        """Tolerate the deletion of a topic, which is possible at any time; planning reports what is lost."""
        try:
            yield
        except UnknownTopics:
            self._views.pop(topic, None)


def _check_one_cluster(tables: Tables, server: Server) -> None:
    of_server = server.cluster_id()
    if tables.cluster_id != of_server:
        raise InvalidOption(
            "server",
            f"{server.url} serves the cluster {of_server}, and the root at {tables.path} is {tables.cluster_id}",
        )


def _server(url: str, patience_ms: int) -> Server:
    from jobs.source.server import Server  # noqa: PLC0415 - reading only tables must not wait for its import

    return Server(url, patience_ms)
