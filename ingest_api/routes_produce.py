"""Producing: from a body in any format to records in the log, by one path."""

from __future__ import annotations

import asyncio
import logging
from typing import Any, Final

import msgspec
import pyarrow as pa

from delta_log import Appended, ProducerStamp, Record
from delta_log.errors import LakelogError, OutcomeUnknown, TopicExists, UnknownTopic
from ingest_api.call import Call, Header, Reply
from ingest_api.formats_in import decode_arrow, decode_envelope, decode_lines, decode_octets
from ingest_api.idempotence import read_stamp
from ingest_api.media import Format, plain_media_type, produce_format
from ingest_api.parameters import Flag, Parameter, Text, Words
from ingest_api.paths import read_partition
from ingest_api.patience import Patience
from ingest_api.produce_answers import accepted_answer, offsets_answer, ranges_answer
from ingest_api.tier import Tier

_log = logging.getLogger("lakelog.http")

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
#: Larger bodies are decoded by a thread, so that the loop goes on meanwhile.
_IN_LOOP: Final = 512 * 1024

Submission = list[Record] | pa.Table


class Produce:
    """Both routes that take records."""

    def __init__(self, tier: Tier) -> None:
        self._tier = tier
        self._seconds = tier.settings.request_timeout_ms / 1000
        self._patience = Patience(self._seconds)
        #: what was answered before it was durable
        self._under_way: set[asyncio.Task[Appended]] = set()

    async def to_topic(self, call: Call) -> Reply:
        return await self._produce(call, None)

    async def to_partition(self, call: Call) -> Reply:
        return await self._produce(call, read_partition(call))

    async def _produce(self, call: Call, partition: int | None) -> Reply:
        topic = call.path["topic"]
        options = call.query(PARAMETERS) if call.scope["query_string"] else _DEFAULTS
        media = produce_format(call.header(b"content-type"), ACCEPTED)
        content_type = plain_media_type(call.list_header(b"accept"))
        stamp = read_stamp(call.headers)
        body = await call.body()
        if len(body) <= _IN_LOOP:
            given = self._decode(call, media, body, options, partition)
        else:
            given = await self._tier.in_thread(self._decode, call, media, body, options, partition)
        if options["acks"] == "0":
            await self._accept(topic, given, stamp)
            return Reply(202, accepted_answer(len(given), as_ranges=media is Format.ARROW), content_type)
        try:
            appended = await self._patience.wait(self._append(topic, given, stamp))
        except TimeoutError:
            raise OutcomeUnknown("the request", f"it took more than {self._seconds:g} s") from None
        self._tier.watch.produced(topic, len(given), len(body))
        headers = [await self._table_version(topic, appended)] if options["wait"] else []
        answer = ranges_answer(appended) if media is Format.ARROW else offsets_answer(appended, len(given))
        return Reply(200, answer, content_type, headers)

    def _decode(
        self, call: Call, media: Format, body: bytes, options: dict[str, Any], partition: int | None
    ) -> Submission:
        settings = self._tier.settings
        match media:
            case Format.BINARY:
                return decode_envelope(body, embedded="binary", partition=partition, most_records=settings.max_records)
            case Format.JSON:
                return decode_envelope(body, embedded="json", partition=partition, most_records=settings.max_records)
            case Format.NDJSON:
                records = decode_lines(
                    body, key_pointer=options["key"], envelope=options["envelope"], most_records=settings.max_records
                )
                return _all_in(records, partition)
            case Format.OCTETS:
                return _all_in([decode_octets(body, call.headers)], partition)
            case _:
                table = decode_arrow(body, most_records=settings.max_records, most_bytes=settings.max_body_bytes)
                return _table_in(table, partition)

    async def _append(self, topic: str, given: Submission, stamp: ProducerStamp | None) -> Appended:
        log = self._tier.log
        try:
            return await (await log.accept_async(topic, given, producer=stamp))
        except UnknownTopic:
            if not self._tier.settings.auto_create_topics:
                raise
        await self._create(topic)
        return await (await log.accept_async(topic, given, producer=stamp))

    async def _create(self, topic: str) -> None:
        """A topic that nobody made before; somebody else may do so at the same time."""
        try:
            await self._tier.in_thread(self._tier.log.create_topic, topic, self._tier.settings.default_partitions)
        except TopicExists as error:
            if error.existing != topic:
                raise

    async def _accept(self, topic: str, given: Submission, stamp: ProducerStamp | None) -> None:
        """Check a request, and have it stored some time."""
        try:
            storing = await self._tier.log.accept_async(topic, given, producer=stamp)
        except UnknownTopic:
            if not self._tier.settings.auto_create_topics:
                raise
            await self._create(topic)
            storing = await self._tier.log.accept_async(topic, given, producer=stamp)
        task = asyncio.create_task(storing)
        self._under_way.add(task)
        task.add_done_callback(self._accepted)

    def _accepted(self, task: asyncio.Task[Appended]) -> None:
        self._under_way.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            _log.warning("records that were accepted with acks=0 were lost: %s", error)

    async def _table_version(self, topic: str, appended: Appended) -> Header:
        """The records are stored, whatever becomes of their table until the time is over."""
        try:
            future = self._tier.log.when_tabled(topic, appended)
            version = await asyncio.wait_for(asyncio.wrap_future(future), self._seconds)
        except (TimeoutError, LakelogError):
            return TABLE_VERSION, b"pending"
        return TABLE_VERSION, b"%d" % version


def _all_in(records: list[Record], partition: int | None) -> list[Record]:
    if partition is None:
        return records
    return [msgspec.structs.replace(record, partition=partition) for record in records]


def _table_in(table: pa.Table, partition: int | None) -> pa.Table:
    if partition is None:
        return table
    column = pa.repeat(pa.scalar(partition, pa.int32()), table.num_rows)
    if "partition" in table.column_names:
        table = table.drop_columns(["partition"])
    return table.append_column("partition", column)
