"""Reads bodies within the limits: of one body, and of all that are in memory at once.

Acts on the decisions of `body_pool`. A body that waits for room is not received, so its connection is not read.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterator
from typing import Final

from ingest_api.web.body_pool import BodyPool, Refused, Room, owner_of
from ingest_api.web.decompress import decode_content, decode_pieces, is_identity
from ingest_api.web.errors import Refusal, try_again
from ingest_api.web.request import Call, Message

#: Smaller bodies are not counted: the buffer of each connection is about as large.
SMALL: Final = 64 * 1024
#: Up to these sizes, coded and decoded, a body is decoded by the loop.
_CODED_IN_LOOP: Final = 16 * 1024
_DECODED_IN_LOOP: Final = 256 * 1024
#: Bytes that a thread decodes before they are counted; number of such threads.
_DECODED_AT_ONCE: Final = 1024 * 1024
_DECODING: Final = 2
#: Pieces that are joined into one, as each takes some memory beside its bytes.
_PIECES: Final = 256
#: Interval at which a waiting body checks for room, and number of checks before it is refused.
_LOOK_S: Final = 0.5
_LOOKS: Final = 10
_PLAIN: Final = "bodies.plain"
_WHY: Final = {
    Refused.FULL: "too many bodies are in memory at once; try again",
    Refused.SHARE: "the bodies of your address took more than half of the memory while others wanted some; try again",
    Refused.AGE: "memory was short, and this body took longer than body_timeout_ms to arrive; try again",
}


class ClientGone(Exception):
    """The client disconnected before it had sent its whole request: the request is not executed."""


class Bodies:
    """Used by the loop alone. `held`: bytes of large bodies in memory, from their first bytes to the answer."""

    def __init__(self, most: int, most_in_all: int, grace_s: float = 20.0) -> None:
        self._most = most
        self._pool = BodyPool(most_in_all, grace_s)
        self._readers: dict[Room, asyncio.Task[object]] = {}
        self._waiters: dict[Room, asyncio.Future[None]] = {}
        self._decoding = asyncio.Semaphore(_DECODING)

    @property
    def held(self) -> int:
        return self._pool.held

    def take_small(self, call: Call) -> bytes | None:
        """Return the body if it has all arrived, is small, and needs no decoding; else None: call `read`."""
        at_once = call.at_once
        if at_once is None:
            return None
        return at_once.take_body() if call.cached(_PLAIN, _is_small_and_plain) else None

    async def read(self, call: Call) -> bytes:
        """Read and decode the body of a request. `release` frees its memory."""
        length, coding = 0, None
        for name, value in call.headers:
            if name == b"content-length":
                length = int(value)
            elif name == b"content-encoding":
                coding = value if coding is None else coding + b"," + value
        if length > self._most:
            raise self._too_large()
        if length >= SMALL and not self._pool.has_room(SMALL):
            await self.hold(call, SMALL)  # before it is sent
        message = await self.receive(call, call.receive())
        if message["type"] == "http.request" and not message.get("more_body", False):
            body: bytes = message["body"]
            if len(body) >= SMALL:
                await self.hold(call, len(body))
        else:
            body = await self._gather(call, message)
        return body if coding is None or is_identity(coding) else await self._decode(call, body, coding)

    async def receive(self, call: Call, receiving: Awaitable[Message]) -> Message:
        """Receive a message; only during this wait may the body be refused to make room for others."""
        room = call.room
        if room is None:
            return await receiving
        room.arriving = True
        try:
            return await receiving
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if room.refused is None or task is None or task.uncancel() > 0:
                raise
            raise _refusal(room.refused) from None
        finally:
            room.arriving = False

    async def hold(self, call: Call, size: int) -> None:
        """Let the request hold `size` bytes, perhaps after a wait, or refuse it."""
        if size > self._most:
            raise self._too_large()
        room = call.room
        if size < SMALL or (room is not None and size <= room.held):
            return
        loop = asyncio.get_running_loop()
        if room is None:
            room = call.room = _room_of(call, loop.time())
            task = asyncio.current_task()
            if task is not None:
                self._readers[room] = task
        self._tell(self._pool.ask(room, size, loop.time()), room)
        if room.waits:
            await self._wait(room)
        if room.refused is not None:
            raise _refusal(room.refused)

    def shrink(self, call: Call, size: int) -> None:
        """Reduce the memory of the request to at most `size`."""
        if call.room is not None:
            self._tell(self._pool.shrink(call.room, size, asyncio.get_running_loop().time()))

    def release(self, call: Call) -> None:
        room, call.room = call.room, None
        if room is not None:
            self._readers.pop(room, None)
            self._tell(self._pool.give_back(room, asyncio.get_running_loop().time()))

    async def _wait(self, room: Room) -> None:
        loop = asyncio.get_running_loop()
        waiter = self._waiters[room] = loop.create_future()
        try:
            for _ in range(_LOOKS):
                await asyncio.wait({waiter}, timeout=_LOOK_S)
                if waiter.done():
                    return
                self._tell(self._pool.look(loop.time()), room)
                if not room.waits:
                    return
            self._tell(self._pool.give_up(room, loop.time()), room)
        finally:
            del self._waiters[room]

    def _tell(self, changed: list[Room], asking: Room | None = None) -> None:
        for room in changed:
            waiter = self._waiters.get(room)
            if waiter is not None:
                if not waiter.done():
                    waiter.set_result(None)
            elif room is not asking and room.refused is not None:
                self._readers[room].cancel()

    async def _gather(self, call: Call, message: Message) -> bytes:
        pieces: list[bytes] = []
        together: list[bytes] = []
        size = 0
        while message["type"] == "http.request":
            together.append(message["body"])
            size += len(message["body"])
            if size >= SMALL or size > self._most:
                await self.hold(call, size)
            if not message.get("more_body", False):
                return b"".join([*pieces, *together])
            if len(together) == _PIECES:
                pieces.append(b"".join(together))
                together = []
            message = await self.receive(call, call.receive())
        raise ClientGone

    async def _decode(self, call: Call, body: bytes, coding: bytes) -> bytes:
        if len(body) <= _CODED_IN_LOOP:
            try:
                decoded = decode_content(body, coding, most=min(self._most, _DECODED_IN_LOOP))
            except Refusal as refusal:
                if refusal.status != 413 or self._most <= _DECODED_IN_LOOP:
                    raise
            else:
                await self.hold(call, len(decoded))
                return decoded
        pieces, so_far = decode_pieces(body, coding, most=self._most), bytearray()
        while True:
            async with self._decoding:
                whole = await asyncio.to_thread(_decode_on, pieces, so_far)
            await self.hold(call, len(so_far))
            if whole is not None:
                return whole

    def _too_large(self) -> Refusal:
        return Refusal(413, f"the body has more than {self._most} bytes")


def _decode_on(pieces: Iterator[bytes], so_far: bytearray) -> bytes | None:
    """Decode about 1 MiB more; returns the whole body once it is complete, else None."""
    upto = len(so_far) + _DECODED_AT_ONCE
    for piece in pieces:
        so_far += piece
        if len(so_far) >= upto:
            return None
    return bytes(so_far)


def _room_of(call: Call, now: float) -> Room:
    client = call.scope.get("client")
    return Room(owner_of(client[0]) if client else "", now)


def _refusal(why: Refused) -> Refusal:
    return try_again(_WHY[why], code=50306)


def _is_small_and_plain(call: Call) -> bool:
    fields = dict(call.headers)
    return b"content-encoding" not in fields and int(fields.get(b"content-length", SMALL)) < SMALL
