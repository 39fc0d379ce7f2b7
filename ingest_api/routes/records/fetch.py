"""Reads one partition by offset, without a group: safe to repeat, as no state is kept."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import ExitStack
from typing import Any, Final

from delta_log import PartialFetch, TopicInfo
from ingest_api.formats.encode import Writer, open_writer
from ingest_api.formats.encode.prefetch import Ahead, held_at_once
from ingest_api.formats.encode.streaming import stream_ahead, stream_pieces
from ingest_api.routes.records.fetch_plan import ONE_PARTITION, cache_headers, check_start, is_known, offset_headers
from ingest_api.routes.records.follow import Follow
from ingest_api.web.context import ServerContext
from ingest_api.web.negotiation import Format, read_format
from ingest_api.web.path_parameters import read_partition
from ingest_api.web.read_budget import Loan
from ingest_api.web.request import Call, Piece, Reply
from ingest_api.web.wakeups import RecordWaiter, disconnected

OFFERED: Final = (Format.NDJSON, Format.BINARY, Format.JSON, Format.ARROW, Format.EVENTS)

Query = Mapping[str, Any]


class Fetch:
    """The route."""

    def __init__(self, tier: ServerContext, follow: Follow) -> None:
        self._tier = tier
        self._follow = follow

    async def __call__(self, call: Call) -> Reply:
        topic, partition = call.path["topic"], read_partition(call)
        query = call.query(ONE_PARTITION)
        check_start(query)
        media = read_format(call.list_header(b"accept"), OFFERED, Format.NDJSON)
        if media is Format.EVENTS:
            offset = await self._tier.in_thread(self._resolve, topic, partition, query)
            return await self._follow.one(call, topic, partition, offset, query["decode"])
        with ExitStack() as held:
            loan = self._tier.read_room.lend(query["max_bytes"])
            held.callback(loan.end)
            return await self._reply(call, topic, partition, query, media, loan, held)

    async def _reply(
        self, call: Call, topic: str, partition: int, query: Query, media: Format, loan: Loan, held: ExitStack
    ) -> Reply:
        """Make the answer; resources in `held` are closed after it was sent."""
        info, offset, begun = await self._tier.in_thread(self._begin, topic, partition, query, loan.size)
        held.callback(begun.later.close)
        if not begun.count and query["timeout"]:
            loan.end()
            await self._wait(call, topic, partition, begun.next_offset, query["timeout"])
            begun = await self._tier.in_thread(self._read, topic, partition, offset, query, loan.take())
            held.callback(begun.later.close)
        loan.keep(held_at_once(begun))
        headers = offset_headers(begun)
        headers += cache_headers(info, begun, offset, query, f"{media} {query['decode']}")
        if is_known(call.list_header(b"if-none-match"), headers):
            return Reply(304, b"", b"", headers, held.pop_all().close)
        writer = open_writer(media, topic, decode=query["decode"])
        body = await self._body(call, writer, begun)
        self._tier.watch.consumed(topic, begun.count, begun.size)
        return Reply(200, body, writer.content_type, headers, held.pop_all().close)

    async def _body(self, call: Call, writer: Writer, begun: PartialFetch) -> bytes | AsyncGenerator[Piece]:
        if not begun.later.rows:
            return stream_pieces(writer, [begun.first])
        ahead = Ahead(begun, self._tier.threads, self._tier.settings.request_timeout_ms / 1000)
        await ahead.begin()
        return stream_ahead(writer, begun.partition, ahead, lambda: call.at_once is not None and call.at_once.gone)

    def _begin(self, topic: str, partition: int, query: Query, room: int) -> tuple[TopicInfo, int, PartialFetch]:
        """Do all calls of the log that a read without a wait needs, in one thread."""
        info = self._tier.log.describe_topic(topic)
        offset = self._resolve(topic, partition, query)
        return info, offset, self._read(topic, partition, offset, query, room)

    def _read(self, topic: str, partition: int, offset: int, query: Query, room: int) -> PartialFetch:
        return self._tier.log.begin_read(topic, partition, offset, max_records=query["max_records"], max_bytes=room)

    def _resolve(self, topic: str, partition: int, query: Query) -> int:
        log = self._tier.log
        if query["timestamp"] is not None:
            found = log.offset_at(topic, partition, query["timestamp"])
            return log.offsets(topic, partition).end_offset if found is None else found
        if isinstance(query["offset"], int):
            return query["offset"]
        known = log.offsets(topic, partition)
        return known.end_offset if query["offset"] == "latest" else known.log_start_offset

    async def _wait(self, call: Call, topic: str, partition: int, offset: int, wait_ms: int) -> None:
        """Wait until there is a record, the time is over, the client has disconnected, or the server stops."""
        tier = self._tier
        with tier.polling(disconnected(call)) as ends, RecordWaiter(tier.log, topic, tier.bell) as alarm:
            alarm.watch(partition, offset)
            await alarm.wait(min(wait_ms, tier.settings.max_poll_ms) / 1000, ends)
