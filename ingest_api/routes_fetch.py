"""Reading one partition by offset without being anybody: safe to repeat, as nothing is remembered of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from delta_log import Fetched
from ingest_api.call import Call, Reply
from ingest_api.fetch_plan import ONE_PARTITION, cache_headers, check_start, is_known, offset_headers
from ingest_api.follow import Follow
from ingest_api.formats_out import open_writer
from ingest_api.media import Format, read_format
from ingest_api.paths import read_partition
from ingest_api.streaming import stream_pieces
from ingest_api.tier import Tier
from ingest_api.waiting import Alarm, disconnected

OFFERED: Final = (Format.NDJSON, Format.BINARY, Format.JSON, Format.ARROW, Format.EVENTS)


class Fetch:
    """The route."""

    def __init__(self, tier: Tier, follow: Follow) -> None:
        self._tier = tier
        self._follow = follow

    async def __call__(self, call: Call) -> Reply:
        topic, partition = call.path["topic"], read_partition(call)
        query = call.query(ONE_PARTITION)
        check_start(query)
        media = read_format(call.list_header(b"accept"), OFFERED, Format.NDJSON)
        offset = await self._tier.in_thread(self._resolve, topic, partition, query)
        if media is Format.EVENTS:
            return await self._follow.one(call, topic, partition, offset, query["decode"])
        room = self._tier.read_room.take(query["max_bytes"])
        try:
            fetched = await self._fetch(call, topic, partition, offset, query, room)
            info = self._tier.log.describe_topic(topic)
            headers = offset_headers(fetched)
            headers += cache_headers(info, fetched, offset, query, f"{media} {query['decode']}")
        except BaseException:
            self._tier.read_room.give_back(room)
            raise
        if is_known(call.header(b"if-none-match"), headers):
            self._tier.read_room.give_back(room)
            return Reply(304, b"", b"", headers)
        writer = open_writer(media, topic, decode=query["decode"])
        self._tier.watch.consumed(topic, fetched.count, sum(batch.nbytes for batch in fetched.batches))
        body = stream_pieces(writer, [fetched])
        return Reply(200, body, writer.content_type, headers, done=lambda: self._tier.read_room.give_back(room))

    def _resolve(self, topic: str, partition: int, query: Mapping[str, Any]) -> int:
        log = self._tier.log
        if query["timestamp"] is not None:
            found = log.offset_at(topic, partition, query["timestamp"])
            return log.offsets(topic, partition).end_offset if found is None else found
        if isinstance(query["offset"], int):
            return query["offset"]
        known = log.offsets(topic, partition)
        return known.end_offset if query["offset"] == "latest" else known.log_start_offset

    async def _fetch(
        self, call: Call, topic: str, partition: int, offset: int, query: Mapping[str, Any], room: int
    ) -> Fetched:
        def read() -> Fetched:
            return self._tier.log.read(topic, partition, offset, max_records=query["max_records"], max_bytes=room)

        fetched = await self._tier.in_thread(read)
        if fetched.count or not query["timeout"]:
            return fetched
        await self._wait(call, topic, partition, fetched.next_offset, query["timeout"] / 1000)
        return await self._tier.in_thread(read)

    async def _wait(self, call: Call, topic: str, partition: int, offset: int, seconds: float) -> None:
        """Until there is a record, the time is over, the client is gone, or we are going."""
        with self._tier.polling(disconnected(call)) as ends, Alarm(self._tier.log, topic) as alarm:
            alarm.arm(partition, offset)
            await alarm.wait(seconds, ends)
