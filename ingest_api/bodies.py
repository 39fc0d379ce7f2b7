"""Reading bodies within the limits: of one body, and of all that are in memory at once."""

from __future__ import annotations

from typing import Final

from ingest_api.call import Call
from ingest_api.content_coding import decode_content
from ingest_api.errors import Refusal, try_again

#: Bodies below this are so small that they are not counted one by one.
_SMALL: Final = 64 * 1024


class ClientGone(Exception):
    """The client went away before it had sent its whole request: nothing of it counts."""


class Bodies:
    """Used by the loop alone. `held` is what large bodies take in memory now, from their first byte to the answer."""

    def __init__(self, most: int, most_in_all: int) -> None:
        self._most = most
        self._most_in_all = most_in_all
        self.held = 0

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
            self._hold(call, len(body))
        else:
            body = await self._gather(call, message)
        if coding is None:
            return body
        decoded = decode_content(body, coding, most=self._most)
        self._hold(call, len(body) + len(decoded))
        return decoded

    def release(self, call: Call) -> None:
        self.held -= call.held
        call.held = 0

    async def _gather(self, call: Call, message: dict[str, object]) -> bytes:
        pieces = bytearray()
        while message["type"] == "http.request":
            pieces += message["body"]
            self._hold(call, len(pieces))
            if not message.get("more_body", False):
                return bytes(pieces)
            message = await call.receive()
        raise ClientGone

    def _hold(self, call: Call, size: int) -> None:
        """Have the request hold `size` bytes from now on, or refuse it."""
        if size > self._most and size > call.held:
            raise Refusal(413, f"the body has more than {self._most} bytes")
        if size < _SMALL or size <= call.held:
            return
        if self.held + size - call.held > self._most_in_all:
            raise try_again("too many bodies are in memory at once; try again", code=50306)
        self.held += size - call.held
        call.held = size
