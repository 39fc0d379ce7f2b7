"""Reads all partitions of a topic at once: as lines, or as events without end."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from delta_log import Fetched
from ingest_api.formats.encode import open_writer
from ingest_api.formats.encode.streaming import stream_pieces
from ingest_api.routes.records.fetch_plan import (
    ALL_PARTITIONS,
    check_merged,
    check_position,
    check_start,
    given_positions,
    next_offsets_header,
)
from ingest_api.routes.records.follow import Follow
from ingest_api.routes.records.merged_read import read_merged
from ingest_api.web.context import ServerContext
from ingest_api.web.negotiation import Format, read_format
from ingest_api.web.read_budget import Loan
from ingest_api.web.request import Call, Reply
from ingest_api.web.wakeups import RecordWaiter, disconnected

OFFERED: Final = (Format.NDJSON, Format.EVENTS)

Query = Mapping[str, Any]
Positions = dict[int, int]


class ReadAll:
    """The route. A read returns the records there are, partition by partition; a header has the next offsets."""

    def __init__(self, tier: ServerContext, follow: Follow) -> None:
        self._tier = tier
        self._follow = follow

    async def __call__(self, call: Call) -> Reply:
        topic = call.path["topic"]
        query = call.query(ALL_PARTITIONS)
        check_start(query)
        media = read_format(call.list_header(b"accept"), OFFERED, Format.NDJSON)
        positions = await self._tier.in_thread(self._resolve, topic, query)
        if media is Format.EVENTS:
            return await self._follow.all(call, topic, positions, query["decode"])
        loan = self._tier.read_room.lend(query["max_bytes"])
        try:
            return await self._reply(call, topic, positions, query, loan)
        except BaseException:
            loan.end()
            raise

    async def _reply(self, call: Call, topic: str, positions: Positions, query: Query, loan: Loan) -> Reply:
        most = query["max_records"]
        found, positions = await self._tier.in_thread(self._read, topic, positions, most, loan.size)
        if not found and query["timeout"]:
            loan.end()
            await self._wait(call, topic, positions, query["timeout"])
            found, positions = await self._tier.in_thread(self._read, topic, positions, most, loan.take())
        size = sum(each.size for each in found)
        loan.keep(size)
        writer = open_writer(Format.NDJSON, topic, decode=query["decode"])
        self._tier.watch.consumed(topic, sum(each.count for each in found), size)
        headers = [next_offsets_header(positions), (b"cache-control", b"no-store")]
        return Reply(200, stream_pieces(writer, found), writer.content_type, headers, loan.end)

    def _resolve(self, topic: str, query: Query) -> Positions:
        log = self._tier.log
        partitions = log.describe_topic(topic).partitions
        check_merged(topic, partitions)
        given = given_positions(query["from"], topic, partitions)
        positions: Positions = {}
        for partition in range(partitions):
            known = log.offsets(topic, partition)
            if partition in given:
                check_position(topic, partition, given[partition], known)
                positions[partition] = given[partition]
            elif query["timestamp"] is not None:
                found = log.offset_at(topic, partition, query["timestamp"])
                positions[partition] = known.end_offset if found is None else found
            else:
                positions[partition] = known.end_offset if query["offset"] == "latest" else known.log_start_offset
        return positions

    def _read(self, topic: str, positions: Positions, most: int, room: int) -> tuple[list[Fetched], Positions]:
        def read(partition: int, offset: int, records: int, size: int) -> Fetched:
            return self._tier.log.read(topic, partition, offset, max_records=records, max_bytes=size)

        return read_merged(read, positions, most, room)

    async def _wait(self, call: Call, topic: str, positions: Positions, wait_ms: int) -> None:
        tier = self._tier
        with tier.polling(disconnected(call)) as ends, RecordWaiter(tier.log, topic, tier.bell) as alarm:
            for partition, offset in positions.items():
                alarm.watch(partition, offset)
            await alarm.wait(min(wait_ms, tier.settings.max_poll_ms) / 1000, ends)
