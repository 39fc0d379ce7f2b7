"""Reading bodies within the limits: of one body, and of all that are in memory at once."""

from __future__ import annotations

import asyncio
from typing import Final

from ingest_api.call import Call, Message
from ingest_api.content_coding import IDENTITY, decode_content
from ingest_api.errors import Refusal, try_again

#: Bodies below this are so small that they are not counted one by one: connections have about as much of a buffer.
_SMALL: Final = 64 * 1024
#: What is so small, coded and decoded, is decoded by the loop.
_CODED_IN_LOOP: Final = 16 * 1024
_DECODED_IN_LOOP: Final = 256 * 1024
#: What is being decoded is counted only once its size is known, so only so many are at a time.
_DECODING: Final = 2
_PLAIN: Final = "bodies.plain"


class ClientGone(Exception):
    """The client went away before it had sent its whole request: nothing of it counts."""


class Bodies:
    """Used by the loop alone. `held` is what large bodies take in memory now, from their first byte to the answer."""

    def __init__(self, most: int, most_in_all: int) -> None:
        self._most = most
        self._most_in_all = most_in_all
        self._decoding = asyncio.Semaphore(_DECODING)
        self.held = 0

    def take_small(self, call: Call) -> bytes | None:
        """The body of a request that needs no decoding, is not counted, and is there; else it is to be read."""
        at_once = call.at_once
        if at_once is None:
            return None
        return at_once.take_body() if call.noted(_PLAIN, _is_small_and_plain) else None

    async def read(self, call: Call) -> bytes:
        """The body of a request, decoded. What it holds is given back by `release`."""
        length, coding = 0, None
        for name, value in call.headers:
            if name == b"content-length":
                length = int(value)
            elif name == b"content-encoding":
                coding = value if coding is None else coding + b"," + value
        self._hold(call, length)
        message = await call.receive()
        if message["type"] == "http.request" and not message.get("more_body", False):
            body: bytes = message["body"]
            if len(body) != length:
                self._hold(call, len(body))
        else:
            body = await self._gather(call, message)
        if coding is None or coding.strip(b" \t").lower() == IDENTITY:
            return body
        decoded = await self._decode(body, coding)
        self._hold(call, len(decoded))
        return decoded

    def release(self, call: Call) -> None:
        self.held -= call.held
        call.held = 0

    async def _gather(self, call: Call, message: Message) -> bytes:
        pieces: list[bytes] = []
        size = 0
        while message["type"] == "http.request":
            pieces.append(message["body"])
            size += len(message["body"])
            self._hold(call, size)
            if not message.get("more_body", False):
                return b"".join(pieces)
            message = await call.receive()
        raise ClientGone

    async def _decode(self, body: bytes, coding: bytes) -> bytes:
        if len(body) <= _CODED_IN_LOOP:
            try:
                return decode_content(body, coding, most=min(self._most, _DECODED_IN_LOOP))
            except Refusal as refusal:
                if refusal.status != 413 or self._most <= _DECODED_IN_LOOP:
                    raise
        async with self._decoding:
            return await asyncio.to_thread(decode_content, body, coding, most=self._most)

    def _hold(self, call: Call, size: int) -> None:
        """Have the request hold `size` bytes from now on, or refuse it."""
        if size > self._most:
            raise Refusal(413, f"the body has more than {self._most} bytes")
        if size < _SMALL or size <= call.held:
            return
        if self.held + size - call.held > self._most_in_all:
            raise try_again("too many bodies are in memory at once; try again", code=50306)
        self.held += size - call.held
        call.held = size


def _is_small_and_plain(call: Call) -> bool:
    fields = dict(call.headers)
    return b"content-encoding" not in fields and int(fields.get(b"content-length", _SMALL)) < _SMALL
