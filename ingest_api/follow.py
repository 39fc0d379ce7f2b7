"""Following a topic for ever, as events: what there is, then each record as it is appended.

Waiting costs a registration with each partition and nothing else; an append wakes those who wait for its partition.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Final

from delta_log import Fetched
from delta_log.errors import LakelogError
from ingest_api.call import Call, Reply
from ingest_api.errors import answer_error
from ingest_api.formats_out import Decode
from ingest_api.formats_out.events import KEEP_ALIVE, EventWriter, parse_event_id
from ingest_api.tier import Tier
from ingest_api.waiting import Alarm, disconnected

#: What is read of one partition before the next has its turn.
_TURN_BYTES: Final = 64 * 1024
_KEEP_ALIVE_S: Final = 15.0


class Follow:
    """Both routes that can follow come here."""

    def __init__(self, tier: Tier) -> None:
        self._tier = tier

    async def one(self, call: Call, topic: str, partition: int, offset: int, decode: Decode) -> Reply:
        return await self._begin(call, topic, {partition: offset}, decode, grows=False)

    async def all(self, call: Call, topic: str, positions: dict[int, int], decode: Decode) -> Reply:
        return await self._begin(call, topic, positions, decode, grows=True)

    async def _begin(self, call: Call, topic: str, positions: dict[int, int], decode: Decode, *, grows: bool) -> Reply:
        last = call.header(b"last-event-id")
        if last:
            resumed = {of: at for of, at in parse_event_id(last).items() if of in positions}
            positions |= await self._tier.in_thread(self._resume, topic, resumed)
        first = await self._tier.in_thread(self._read, topic, positions)  # what cannot be read is refused in time
        events = self._events(call, topic, positions, first, decode, grows=grows)
        return Reply(200, events, b"text/event-stream", [(b"cache-control", b"no-store")])

    def _resume(self, topic: str, positions: dict[int, int]) -> dict[int, int]:
        """Who was away for so long that records left meanwhile goes on behind them."""
        log = self._tier.log
        return {of: max(at, log.offsets(topic, of).log_start_offset) for of, at in positions.items()}

    async def _events(
        self,
        call: Call,
        topic: str,
        positions: dict[int, int],
        found: list[Fetched],
        decode: Decode,
        *,
        grows: bool,
    ) -> AsyncGenerator[bytes]:
        writer = EventWriter(positions, decode)
        with self._tier.polling(disconnected(call)) as ends, Alarm(self._tier.log, topic) as alarm:
            yield KEEP_ALIVE
            due = set(positions)
            try:
                while not any(end.done() for end in ends):
                    for fetched in found:
                        positions[fetched.partition] = fetched.next_offset
                        for piece in writer.rows(fetched.partition, fetched.batches):
                            yield piece
                        writer.moved(fetched.partition, fetched.next_offset)
                        self._tier.watch.consumed(topic, fetched.count, sum(b.nbytes for b in fetched.batches))
                    for partition in due:
                        alarm.arm(partition, positions[partition])
                    if not alarm.ready:
                        await alarm.wait(_KEEP_ALIVE_S, ends)
                    due, alarm.ready = alarm.ready, set()
                    if not due:
                        yield KEEP_ALIVE
                    if grows:
                        due |= self._new_partitions(topic, positions)
                    found = await self._tier.in_thread(self._read, topic, {of: positions[of] for of in due})
            except LakelogError as error:
                yield b"event: error\ndata: %b\n\n" % answer_error(error).body

    def _new_partitions(self, topic: str, positions: dict[int, int]) -> set[int]:
        """Partitions that were added since begin at their first record."""
        added = set(range(self._tier.log.describe_topic(topic).partitions)) - positions.keys()
        positions |= dict.fromkeys(added, 0)
        return added

    def _read(self, topic: str, positions: dict[int, int]) -> list[Fetched]:
        read = self._tier.log.read
        return [read(topic, of, offset, max_bytes=_TURN_BYTES) for of, offset in positions.items()]
