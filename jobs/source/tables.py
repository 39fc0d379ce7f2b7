"""A root's topics by their tables: offsets as of the newest versions, and the files with the records.

Knows delta_log's LogReader, which takes no lock and writes nothing. It does not see records not yet in the tables.
"""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import contextmanager
from urllib.parse import unquote, urlsplit

from delta_log import LogReader
from delta_log.model import errors as log_errors
from delta_log.model.store_location import OBJECT_SCHEMES, Location, parse_options
from delta_log.model.types import DataFile
from delta_log.stores.place_arguments import OPTIONS_VARIABLE
from jobs.source.errors import InvalidOption, UnknownPartition, UnknownTopics
from jobs.source.planning import PlannedFile, Span, Tabled, TopicView
from jobs.source.positions import Range


def root_of(path: str) -> str:
    """Convert a path as given in Spark to a root: a directory, a `file:` URL of one, or a bucket.

    Options of a bucket's store come from the environment of the reading process: for Spark, Python processes of the
    driver and of executors.
    """
    if path.startswith("file:"):
        return unquote(urlsplit(path).path)
    if isinstance(path, Location) or path.partition("://")[0] not in OBJECT_SCHEMES:
        return path
    try:
        return Location(path, parse_options(os.environ.get(OPTIONS_VARIABLE, "").split(",")))
    except ValueError as error:
        raise InvalidOption("path", f"the variable {OPTIONS_VARIABLE}: {error}") from None


class Tables:
    def __init__(self, path: str) -> None:
        self.path = path
        self._reader = LogReader.open(root_of(path))

    def close(self) -> None:
        self._reader.close()

    @property
    def cluster_id(self) -> str:
        return self._reader.cluster_id

    def topics(self) -> list[str]:
        return self._reader.topics()

    def describe(self, topic: str) -> TopicView:
        with self._named(topic):
            found = self._reader.describe_topic(topic)
        return TopicView(found.partitions, int(found.config.message_timestamp_type == "LogAppendTime"), found.id)

    def range(self, topic: str, partition: int) -> Range:
        with self._named(topic):
            found = self._reader.offsets(topic, partition)
        return Range(found.log_start_offset, found.end_offset)

    def offset_at(self, topic: str, partition: int, time_ms: int) -> int | None:
        return self._reader.offset_at(topic, partition, time_ms)

    def ends(self, topic: str, partitions: int) -> dict[int, int]:
        return {number: self.range(topic, number).end for number in range(partitions)}

    def tabled(self, span: Span) -> Tabled | None:
        """Return the files that overlap a span; None if the table does not have the partition yet."""
        topic, partition = span.of
        try:
            end = self._reader.offsets(topic, partition).end_offset
            topic_id = self._reader.describe_topic(topic).id
            found = self._reader.files(topic, partition, span.start, span.end)
        except (log_errors.UnknownTopic, log_errors.UnknownPartition):
            return None
        directory = self._reader.table_directory(topic)
        return Tabled(topic_id, end, tuple(_planned(directory, file) for file in found))

    @contextmanager
    def _named(self, topic: str) -> Generator[None]:
        try:
            yield
        except (log_errors.UnknownTopic, log_errors.InvalidName):
            raise UnknownTopics([topic], self.path) from None
        except log_errors.UnknownPartition as error:
            raise UnknownPartition(topic, self.path, str(error)) from None


def _planned(directory: str, file: DataFile) -> PlannedFile:
    dense = file.count == file.next_offset - file.base_offset
    return PlannedFile(f"{directory}/{file.path}", file.base_offset, file.next_offset, dense)
