"""Produces records: from a body in any format to the log, by one path."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from typing import Any, Final, NamedTuple

import pyarrow as pa

from delta_log import Appended, ProducerStamp, Record
from delta_log.model.errors import LakelogError, OutcomeUnknown, UnknownTopic
from delta_log.transactions.buffered_records import Staged
from ingest_api.formats.decode import decode_arrow, decode_envelope, decode_lines, decode_octets
from ingest_api.routes.records.auto_create import make_topic_for
from ingest_api.routes.records.receipts import accepted_answer, offsets_answer, ranges_answer, staged_answer
from ingest_api.routes.records.unacknowledged import Accepted
from ingest_api.web.context import ServerContext
from ingest_api.web.errors import Refusal
from ingest_api.web.negotiation import Format, plain_media_type, produce_format
from ingest_api.web.parameters import Flag, Parameter, Text, Words
from ingest_api.web.path_parameters import read_partition
from ingest_api.web.producer_headers import Sender, read_sender, read_stage, read_stamp, read_transaction
from ingest_api.web.request import Call, Header, Reply
from ingest_api.web.request_timeout import RequestTimeout
from ingest_api.web.wakeups import wait_for_any

ACKS: Final = Words(("0", "1", "all", "-1"))
PARAMETERS: Final = (
    Parameter("acks", ACKS, "When to answer: 0 once accepted, else once durable.", default="all"),
    Parameter("wait", Words(("table",)), "Answer when the records are rows of the topic's table."),
    Parameter("key", Text(1024), "Of NDJSON: the JSON pointer to the key in each line."),
    Parameter("envelope", Flag(), "Of NDJSON: each line is a record object.", default=False),
)
ACCEPTED: Final = (Format.BINARY, Format.JSON, Format.NDJSON, Format.OCTETS, Format.ARROW)
TABLE_VERSION: Final = b"lakelog-table-version"
_DEFAULTS: Final = {parameter.name: parameter.default for parameter in PARAMETERS}
#: Larger bodies are decoded by a thread, so that the loop is not blocked.
_IN_LOOP: Final = 512 * 1024

#: Name of the value cached for a head.
_ASKED: Final = "produce.asked"

Options = dict[str, Any]
Submission = Sequence[Record] | pa.Table


class Asked(NamedTuple):
    """The parsed head of a request, shared by a producer's requests that differ only in their number."""

    media: Format
    options: Options
    content_type: bytes
    sender: Sender | None
    transaction: str | None
    stage: str | None


class Produce:
    """Handlers of both routes that take records."""

    def __init__(self, tier: ServerContext) -> None:
        self._tier = tier
        self._patience = RequestTimeout(tier.settings.request_timeout_ms / 1000)
        self._accepted = Accepted(tier.settings.max_bodies_bytes)

    def to_topic(self, call: Call) -> Coroutine[Any, Any, Reply]:
        return self._produce(call, None)

    async def to_partition(self, call: Call) -> Reply:
        return await self._produce(call, read_partition(call))

    async def _produce(self, call: Call, partition: int | None) -> Reply:
        topic = call.path["topic"]
        asked = call.cached(_ASKED, _read_head)
        stamp = None if asked.sender is None else read_stamp(call.headers, asked.sender)
        body = call.small_body()
        if body is None:
            body = await call.body()
        if len(body) <= _IN_LOOP:
            given = self._decode(call, asked, body, partition)
        else:
            given = await self._tier.in_thread(self._decode, call, asked, body, partition)
        if asked.transaction is not None:
            return await self._stage(topic, given, asked, stamp, asked.transaction)
        if asked.options is not _DEFAULTS:
            return await self._store(topic, given, asked, stamp, len(body))
        storing = self._tier.log.queue_up(topic, given, producer=stamp)
        if storing is None:
            return await self._store(topic, given, asked, stamp, len(body))
        self._patience.start(storing)
        try:
            appended = await storing
        except TimeoutError:
            raise self._too_late() from None
        finally:
            self._patience.cancel(storing)
        self._tier.watch.produced(topic, len(given), len(body))
        return _answer(asked, appended, len(given))

    async def _store(
        self, topic: str, given: Submission, asked: Asked, stamp: ProducerStamp | None, size: int
    ) -> Reply:
        """Store with options other than the default ones, or where the fast path cannot."""
        options = asked.options
        if options["acks"] == "0":
            await self._accept(topic, given, stamp, size)
            answer = accepted_answer(len(given), as_ranges=asked.media is Format.ARROW)
            return Reply(202, answer, asked.content_type)
        began = asyncio.get_running_loop().time() if options["wait"] else 0.0
        appended = await self._in_time(self._append(topic, given, stamp))
        self._tier.watch.produced(topic, len(given), size)
        reply = _answer(asked, appended, len(given))
        if options["wait"]:
            reply.headers = [await self._table_version(topic, appended, began)]
        return reply

    async def _stage(
        self, topic: str, given: Submission, asked: Asked, stamp: ProducerStamp | None, transaction: str
    ) -> Reply:
        """Append to a transaction: stored, and invisible until its commit."""
        tier = self._tier

        def stage() -> Staged:
            return tier.log.transactions.append(transaction, topic, given, stamp, asked.stage)

        try:
            staged = await tier.in_thread(stage)
        except UnknownTopic:
            if not tier.settings.auto_create_topics:
                raise
            await make_topic_for(tier, topic, given, stamp)
            staged = await tier.in_thread(stage)
        return Reply(202, staged_answer(staged, as_ranges=asked.media is Format.ARROW), asked.content_type)

    def _decode(self, call: Call, asked: Asked, body: bytes, partition: int | None) -> Submission:
        most = self._tier.settings.max_records
        match asked.media:
            case Format.BINARY:
                return decode_envelope(body, embedded="binary", partition=partition, most_records=most)
            case Format.JSON:
                return decode_envelope(body, embedded="json", partition=partition, most_records=most)
            case Format.NDJSON:
                pointer, envelope = asked.options["key"], asked.options["envelope"]
                return decode_lines(
                    body, key_pointer=pointer, envelope=envelope, partition=partition, most_records=most
                )
            case Format.OCTETS:
                return [decode_octets(body, call.headers, partition=partition)]
            case _:
                most_bytes = self._tier.settings.max_body_bytes
                return decode_arrow(body, partition=partition, most_records=most, most_bytes=most_bytes)

    async def _append(self, topic: str, given: Submission, stamp: ProducerStamp | None) -> Appended:
        return await (await self._check(topic, given, stamp))

    async def _check(self, topic: str, given: Submission, stamp: ProducerStamp | None) -> Coroutine[Any, Any, Appended]:
        """Refuse records that can never be stored; awaiting the result stores the others."""
        tier = self._tier
        try:
            return await tier.log.accept_async(topic, given, producer=stamp)
        except UnknownTopic:
            if not tier.settings.auto_create_topics:
                raise
        await make_topic_for(tier, topic, given, stamp)
        return await tier.log.accept_async(topic, given, producer=stamp)

    async def _accept(self, topic: str, given: Submission, stamp: ProducerStamp | None, size: int) -> None:
        """Check a request, and store it in the background."""
        self._accepted.check_room()
        storing = await self._in_time(self._check(topic, given, stamp))
        self._accepted.store(storing, size, lambda: self._tier.watch.produced(topic, len(given), size))

    async def _in_time(self, work: Coroutine[Any, Any, Any]) -> Any:
        try:
            return await self._patience.wait(work)
        except TimeoutError:
            raise self._too_late() from None

    def _too_late(self) -> OutcomeUnknown:
        return OutcomeUnknown("the request", f"it took more than {self._patience.seconds:g} s")

    async def _table_version(self, topic: str, appended: Appended, began: float) -> Header:
        """Wait for the table until the request timeout, else `pending`: the records are stored in any case."""
        try:
            future = asyncio.wrap_future(self._tier.log.when_tabled(topic, appended))
        except LakelogError:
            return TABLE_VERSION, b"pending"
        left = began + self._patience.seconds - asyncio.get_running_loop().time()
        try:
            await wait_for_any(max(0.0, left), (future, self._tier.closing))
        finally:
            future.cancel()  # no effect on a finished future
        if future.cancelled() or future.exception() is not None:
            return TABLE_VERSION, b"pending"
        return TABLE_VERSION, b"%d" % future.result()


def _read_head(call: Call) -> Asked:
    media = produce_format(call.header(b"content-type"), ACCEPTED)
    options = _read_options(call, media) if call.scope["query_string"] else _DEFAULTS
    transaction, stage = read_transaction(call.headers), read_stage(call.headers)
    if stage is not None and transaction is None:
        raise Refusal(422, "Transaction-Stage is a part of a transaction: say by Transaction-Id of which")
    if transaction is not None and (options["acks"] == "0" or options["wait"]):
        raise Refusal(422, "records of a transaction are stored when it is committed: acks=0 and wait are not for them")
    content_type = plain_media_type(call.list_header(b"accept"))
    return Asked(media, options, content_type, read_sender(call.headers), transaction, stage)


def _answer(asked: Asked, appended: Appended, count: int) -> Reply:
    answer = ranges_answer(appended) if asked.media is Format.ARROW else offsets_answer(appended, count)
    return Reply(200, answer, asked.content_type)


def _read_options(call: Call, media: Format) -> Options:
    """Parse options; refuses those that contradict each other or have no effect."""
    options = call.query(PARAMETERS)
    if media is not Format.NDJSON and (options["key"] is not None or options["envelope"]):
        raise Refusal(422, f"key and envelope are of {Format.NDJSON}, and this request is {media}")
    if options["acks"] == "0" and options["wait"]:
        raise Refusal(422, "wait=table waits for more than acks=0 does: give one of them")
    return options
