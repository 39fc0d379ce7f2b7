"""Requests about the log and the group that need no member. Pure: generators, driven by threads or by tasks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final, Literal, TypeVar
from urllib.parse import quote

import msgspec

from lakelog.consume.instance_api import Wire
from lakelog.consume.membership import STALE, UNKNOWN_INSTANCE
from lakelog.consume.partition_state import Held
from lakelog.consume.settings import ConsumerSettings
from lakelog.consume.subscription import Spot
from lakelog.foundation.errors import CommitFailed, OutcomeUnknown
from lakelog.foundation.names import check_topic
from lakelog.foundation.topic_partition import OffsetAndMetadata, TopicPartition
from lakelog.topics.shapes import PartitionOffsets
from lakelog.transport.exchange import Request
from lakelog.transport.retry import Asking, Patience, Question, Rejected, ask

T = TypeVar("T")
_UNKNOWN_GROUP: Final = 40404
#: Longest reason of a dead letter; a longer one is cut.
MOST_REASON: Final = 1_000
Side = Literal["beginning_offset", "end_offset"]


class _Entry(msgspec.Struct):
    topic: str
    partition: int
    next_offset: int
    metadata: str


class _Committed(msgspec.Struct):
    offsets: list[_Entry]


#: Finds the offsets to seek to.
Find = Callable[["ConsumerQuestions", list[TopicPartition]], Asking[dict[TopicPartition, int]]]


class ConsumerQuestions:
    def __init__(self, settings: ConsumerSettings) -> None:
        self._settings = settings

    def committed(
        self, partitions: Iterable[TopicPartition], timeout: float | None
    ) -> Asking[dict[TopicPartition, OffsetAndMetadata | None]]:
        every = yield from self._all_committed(timeout)
        return {TopicPartition(*each): every.get(TopicPartition(*each)) for each in partitions}

    def offsets(
        self, partitions: Iterable[TopicPartition], side: Side, timeout: float | None
    ) -> Asking[dict[TopicPartition, int]]:
        found: dict[TopicPartition, int] = {}
        for each in partitions:
            known = yield from self._offsets(each, None, timeout)
            found[TopicPartition(*each)] = getattr(known, side)
        return found

    def offsets_for_times(
        self, times: Mapping[TopicPartition, int], timeout: float | None
    ) -> Asking[dict[TopicPartition, int | None]]:
        found: dict[TopicPartition, int | None] = {}
        for each, time in times.items():
            known = yield from self._offsets(each, time, timeout)
            found[TopicPartition(*each)] = known.offset
        return found

    def offsets_at(
        self, time: int, partitions: Iterable[TopicPartition], timeout: float | None
    ) -> Asking[dict[TopicPartition, int]]:
        """Offsets of the first records at or after a time; the end offset if there is none."""
        found: dict[TopicPartition, int] = {}
        for each in partitions:
            known = yield from self._offsets(each, time, timeout)
            found[each] = known.end_offset if known.offset is None else known.offset
        return found

    def position(self, held: Held, timeout: float | None) -> Asking[int | None]:
        """Position of the caller; None if only the server knows it, and no record has arrived yet."""
        if held.next_for_caller is not None:
            return held.next_for_caller
        committed = (yield from self._all_committed(timeout)).get(held.partition)
        if committed is not None:
            return committed.offset
        if self._settings.auto_offset_reset != "earliest":
            return None
        return (yield from self._offsets(held.partition, None, timeout)).beginning_offset

    def give_up(self, member: str, record: Spot, reason: str, since: int | None, timeout: float | None) -> Asking[None]:
        """Make a record a dead letter. A repeat has no further effect, so it is retried until the deadline."""
        request = Wire(self._settings).give_up(member, record, reason[:MOST_REASON], since)
        what = f"making offset {record.offset} of {record.partition} a dead letter"
        try:
            yield from ask(Question(what, request), self._patience(timeout))
        except Rejected as declined:
            error, said = declined.fault.error, declined.fault.error.said
            if said is not None and said.error_code in (STALE, UNKNOWN_INSTANCE):
                error = CommitFailed(str(error), said=said)
            raise error from None

    def lag(self, several: Iterable[Held], timeout: float | None) -> Asking[dict[TopicPartition, int | None]]:
        found: dict[TopicPartition, int | None] = {}
        for held in several:
            end = (yield from self._offsets(held.partition, None, timeout)).end_offset
            position = yield from self.position(held, timeout)
            found[held.partition] = None if position is None else max(0, end - position)
        return found

    def _all_committed(self, timeout: float | None) -> Asking[dict[TopicPartition, OffsetAndMetadata]]:
        what, path = "asking for what is committed", f"/groups/{quote(self._settings.group_id, safe='')}/offsets"
        try:
            heeded = yield from ask(Question(what, Request("GET", path)), self._patience(timeout))
        except Rejected as declined:
            error = declined.fault.error
            if error.said is not None and error.said.error_code == _UNKNOWN_GROUP:
                return {}
            raise error from None
        return {
            TopicPartition(each.topic, each.partition): OffsetAndMetadata(each.next_offset, each.metadata)
            for each in _read(what, heeded.answer.body, _Committed).offsets
        }

    def _offsets(self, partition: TopicPartition, time: int | None, timeout: float | None) -> Asking[PartitionOffsets]:
        topic, number = partition
        check_topic(topic)
        what = f"asking for the offsets of {topic}-{number:d}"
        query = "" if time is None else f"?timestamp={time:d}"
        path = f"/topics/{topic}/partitions/{number:d}/offsets{query}"
        try:
            heeded = yield from ask(Question(what, Request("GET", path)), self._patience(timeout))
        except Rejected as declined:
            raise declined.fault.error from None
        return _read(what, heeded.answer.body, PartitionOffsets)

    def _patience(self, timeout: float | None) -> Patience:
        of = self._settings
        total_s = of.default_api_timeout_ms / 1000 if timeout is None else timeout
        return Patience(of.bootstrap_servers, total_s, of.request_timeout_ms / 1000, of.retries, of.backoff)


def _read(what: str, body: bytes, shape: type[T]) -> T:
    try:
        return msgspec.json.decode(body, type=shape)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise OutcomeUnknown(what, f"the answer cannot be read: {error}") from None
