"""Follows a topic without end, as events: the existing records, then each record as it is appended.

Waiting costs only a registration with each partition; an append wakes the tasks that wait for its partition.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Final

from delta_log.model.errors import LakelogError
from ingest_api.formats.encode import Decode
from ingest_api.formats.encode.events import KEEP_ALIVE, EventWriter, format_event_id, parse_event_id
from ingest_api.routes.records.follow_cursor import Following
from ingest_api.web.context import ServerContext
from ingest_api.web.errors import Refusal, answer_error
from ingest_api.web.request import Call, Reply
from ingest_api.web.wakeups import RecordWaiter, disconnected

#: Interval of keep-alive comments, and of checks for changes without an append: a topic is deleted, or has grown.
KEEP_ALIVE_S: Final = 15.0
_HEADERS: Final = [(b"cache-control", b"no-store"), (b"x-accel-buffering", b"no")]


class Follow:
    """Answers of both routes that can follow."""

    def __init__(self, tier: ServerContext) -> None:
        self._tier = tier

    async def one(self, call: Call, topic: str, partition: int, offset: int, decode: Decode) -> Reply:
        return await self._begin(call, topic, {partition: offset}, decode, grows=False)

    async def all(self, call: Call, topic: str, positions: dict[int, int], decode: Decode) -> Reply:
        return await self._begin(call, topic, positions, decode, grows=True)

    async def _begin(self, call: Call, topic: str, positions: dict[int, int], decode: Decode, *, grows: bool) -> Reply:
        last = call.header(b"last-event-id")
        seen = parse_event_id(last) if last else {}
        following = await self._tier.in_thread(
            Following.begin, self._tier.log, topic, positions, seen, grows=grows
        )  # an unreadable position is refused here, before the answer begins
        return Reply(200, self._events(call, following, decode), b"text/event-stream", _HEADERS)

    async def _events(self, call: Call, following: Following, decode: Decode) -> AsyncGenerator[bytes]:
        tier, topic = self._tier, following.topic
        writer = EventWriter(following.positions, decode)
        with tier.polling(disconnected(call)) as ends, RecordWaiter(tier.log, topic, tier.bell) as alarm:
            # An id without data is no event, but a client that reconnects before the first event sends it, too.
            yield KEEP_ALIVE + b"id: %b\n\n" % format_event_id(following.positions).encode()
            try:
                while not any(end.done() for end in ends):
                    for fetched in await tier.in_thread(following.read_turn):
                        tier.watch.consumed(topic, fetched.count, fetched.size)
                        for piece in writer.rows(fetched.partition, fetched.batches):
                            yield piece
                        writer.moved(fetched.partition, fetched.next_offset)
                    for partition, offset in following.take_idle():
                        alarm.watch(partition, offset)
                    if following.due:
                        continue
                    await alarm.wait(KEEP_ALIVE_S, ends)
                    if not alarm.ready:
                        yield KEEP_ALIVE
                    following.wake(alarm.ready)
                    alarm.ready = set()
            except (LakelogError, Refusal) as error:
                yield b"event: error\ndata: %b\n" % answer_error(error).body  # the body ends its line
