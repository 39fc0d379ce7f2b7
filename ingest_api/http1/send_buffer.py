"""The sending side of one connection, and the ways to end it. Knows the transport; nothing of requests."""

from __future__ import annotations

import asyncio
import socket
import struct
from typing import Final

from ingest_api.http1.counts import WireCounts

#: Closing with this option sends a reset: the peer learns that the answer is incomplete.
_RESET: Final = struct.pack("ii", 1, 0)


class Outlet:
    """Used by one event loop. Once `over` is set, what is written is discarded."""

    __slots__ = ("_counts", "_drainers", "_loop", "_sent", "_transport", "lingering", "over", "paused")

    def __init__(
        self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop, counts: WireCounts, most_unsent: int
    ) -> None:
        self._transport = transport
        self._loop = loop
        self._counts = counts
        self._drainers: list[asyncio.Future[None]] = []
        self._sent = 0
        #: Backpressure: too many bytes are unsent.
        self.paused = False
        #: No more is written; the connection ends as soon as the bytes written before are sent.
        self.over = False
        #: Our side has ended; waiting for the client to end its own.
        self.lingering = False
        transport.set_write_buffer_limits(high=most_unsent)
        self._tell_kernel(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, most_unsent)

    @property
    def unsent(self) -> int:
        return self._transport.get_write_buffer_size()

    @property
    def taken(self) -> int:
        """Bytes handed to the kernel since the connection was made."""
        return self._sent - self.unsent

    def write(self, data: bytes) -> None:
        if data and not self.over:
            self._sent += len(data)
            self._counts.bytes_out += len(data)
            self._transport.write(data)

    def write_large(self, *pieces: bytes) -> None:
        """Write without copying the pieces into one block."""
        if not self.over:
            size = sum(map(len, pieces))
            self._sent += size
            self._counts.bytes_out += size
            self._transport.writelines(pieces)

    async def drain(self) -> None:
        """Wait until the client has taken enough, or the connection is lost."""
        while self.paused:
            drainer: asyncio.Future[None] = self._loop.create_future()
            self._drainers.append(drainer)
            await drainer

    def resume(self) -> None:
        self.paused = False
        drainers, self._drainers = self._drainers, []
        for drainer in drainers:
            if not drainer.done():
                drainer.set_result(None)

    def close(self) -> None:
        """Close after the bytes written before are sent."""
        self.over = True
        self._transport.close()

    def linger(self) -> None:
        """End our side after the bytes written before. Closing with input unread would reset, and lose the answer."""
        if self._transport.can_write_eof():
            self.over = self.lingering = True
            self._transport.write_eof()
        else:
            self.close()

    def abort(self) -> None:
        """Close by a reset, so that an incomplete answer is not taken for a whole one."""
        self.over = True
        self._tell_kernel(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        self._transport.abort()

    def _tell_kernel(self, level: int, option: int, value: int | bytes) -> None:
        """Set a socket option; none for a Unix socket.

        TCP_NOTSENT_LOWAT: unsent bytes must not pile up in the kernel, which would also hide a slow reader.
        """
        sock = self._transport.get_extra_info("socket")
        if sock is not None and sock.family != socket.AF_UNIX:
            sock.setsockopt(level, option, value)
