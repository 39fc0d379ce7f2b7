"""Stores records that each have a receipt of their own: a refused record does not prevent the others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec

from delta_log.model.errors import InvalidRequest, LakelogError, OutcomeUnknown, UnknownTopic
from ingest_api.formats.decode.record_errors import Fault
from ingest_api.routes.topics.shapes import TopicRequest
from ingest_api.routes.topics.topics import ensure_topic
from ingest_api.routes.v3.context import translate
from ingest_api.routes.v3.record_shapes import GivenRecord, Sent, convert_record, write_instant
from ingest_api.web.context import ServerContext
from ingest_api.web.errors import Refusal, answer_error
from ingest_api.web.request_timeout import RequestTimeout


class Stored(NamedTuple):
    """Position and time of a durable record, for its receipt."""

    partition_id: int
    offset: int
    timestamp: str


Outcome = tuple[Sent, Stored] | Exception


class Storing:
    """Appends records and collects the outcome of each."""

    def __init__(self, tier: ServerContext) -> None:
        self._tier = tier
        self._seconds = tier.settings.request_timeout_ms / 1000
        self._patience = RequestTimeout(self._seconds)

    async def find(self, topic: str) -> None:
        """Check that the topic exists; creates it if the server may."""
        try:
            await self._tier.in_thread(self._tier.log.describe_topic, topic)
        except UnknownTopic:
            if not self._tier.settings.auto_create_topics:
                raise
            await self._tier.change_topics(ensure_topic, self._tier, topic, TopicRequest())

    async def store(self, topic: str, given: Sequence[GivenRecord | Exception]) -> list[Outcome]:
        """Store records; returns the outcome of each, in their order."""
        sent = [_convert(each) for each in given]
        good = [each for each in sent if isinstance(each, Sent)]
        stored = iter(await self._append(topic, good) if good else ())
        return [next(stored) if isinstance(each, Sent) else each for each in sent]

    async def _append(self, topic: str, sent: list[Sent]) -> list[Outcome]:
        """Append all at once; if the log refuses, append each half separately, down to the refused records."""
        records = [each.record for each in sent]
        try:
            append_time = self._tier.log.describe_topic(topic).config.message_timestamp_type == "LogAppendTime"
            appended = await self._patience.wait(self._tier.log.append_async(topic, records))
        except InvalidRequest as error:
            if len(sent) == 1 or isinstance(error, UnknownTopic):
                return [error] * len(sent)
            half = len(sent) // 2
            return [*await self._append(topic, sent[:half]), *await self._append(topic, sent[half:])]
        except TimeoutError:
            return [OutcomeUnknown("the record", f"it took more than {self._seconds:g} s")] * len(sent)
        except LakelogError as error:
            return [error] * len(sent)
        size = sum(len(each.key or b"") + len(each.value or b"") for each in records)
        self._tier.watch.produced(topic, len(records), size)
        outcomes: list[Outcome] = []
        for each, partition, offset in zip(sent, appended.partitions, appended.offsets(), strict=True):
            given = each.record.timestamp
            time = appended.timestamp if given is None or append_time else given
            outcomes.append((each, Stored(partition, offset, write_instant(time))))
        return outcomes


def explain(error: Exception) -> dict[str, Any]:
    """Make the receipt of a record that is not stored, or whose outcome is unknown."""
    if isinstance(error, InvalidRequest):
        error = translate(error)
    return msgspec.json.decode(answer_error(error).body)


def _convert(given: GivenRecord | Exception) -> Sent | Exception:
    if isinstance(given, Exception):
        return given
    try:
        return convert_record(given)
    except Fault as fault:
        return Refusal(422, str(fault))
