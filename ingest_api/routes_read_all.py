"""Reading all partitions of a topic at once: as lines, or as events that go on for ever."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from delta_log import Fetched
from ingest_api.call import Call, Reply
from ingest_api.fetch_plan import ALL_PARTITIONS, check_start
from ingest_api.follow import Follow
from ingest_api.formats_out import open_writer
from ingest_api.formats_out.events import format_event_id, parse_event_id
from ingest_api.media import Format, read_format
from ingest_api.streaming import stream_pieces
from ingest_api.tier import Tier
from ingest_api.waiting import Alarm, disconnected

OFFERED: Final = (Format.NDJSON, Format.EVENTS)
#: What the answer to a read of all partitions is told by, and goes on with.
NEXT: Final = b"lakelog-next-offsets"


class ReadAll:
    """The route. A read gives what there is, partition by partition; where to go on is in a header."""

    def __init__(self, tier: Tier, follow: Follow) -> None:
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
        room = self._tier.read_room.take(query["max_bytes"])
        try:
            fetched = await self._tier.in_thread(self._read, topic, positions, query["max_records"], room)
            if not fetched and query["timeout"]:
                await self._wait(call, topic, positions, query["timeout"] / 1000)
                fetched = await self._tier.in_thread(self._read, topic, positions, query["max_records"], room)
        except BaseException:
            self._tier.read_room.give_back(room)
            raise
        writer = open_writer(media, topic, decode=query["decode"])
        for each in fetched:
            self._tier.watch.consumed(topic, each.count, sum(batch.nbytes for batch in each.batches))
        headers = [(NEXT, format_event_id(positions).encode()), (b"cache-control", b"no-store")]
        body = stream_pieces(writer, fetched)
        return Reply(200, body, writer.content_type, headers, done=lambda: self._tier.read_room.give_back(room))

    def _resolve(self, topic: str, query: Mapping[str, Any]) -> dict[int, int]:
        log = self._tier.log
        given = parse_event_id(query["from"].encode()) if query["from"] else {}
        positions: dict[int, int] = {}
        for partition in range(log.describe_topic(topic).partitions):
            known = log.offsets(topic, partition)
            if partition in given:
                positions[partition] = given[partition]
            elif query["timestamp"] is not None:
                found = log.offset_at(topic, partition, query["timestamp"])
                positions[partition] = known.end_offset if found is None else found
            else:
                positions[partition] = known.end_offset if query["offset"] == "latest" else known.log_start_offset
        return positions

    def _read(self, topic: str, positions: dict[int, int], most: int, room: int) -> list[Fetched]:
        """What there is from `positions` on, which are moved, within one budget for all partitions."""
        found: list[Fetched] = []
        records, size = most, room
        for partition, offset in positions.items():
            if records <= 0 or size <= 0:
                break
            fetched = self._tier.log.read(topic, partition, offset, max_records=records, max_bytes=size)
            positions[partition] = fetched.next_offset
            if fetched.count:
                found.append(fetched)
                records -= fetched.count
                size -= sum(batch.nbytes for batch in fetched.batches)
        return found

    async def _wait(self, call: Call, topic: str, positions: Mapping[int, int], seconds: float) -> None:
        with self._tier.polling(disconnected(call)) as ends, Alarm(self._tier.log, topic) as alarm:
            for partition, offset in positions.items():
                alarm.arm(partition, offset)
            await alarm.wait(seconds, ends)
