"""The sending side of one connection, and the ways to end it. Knows the transport; nothing of requests."""

from __future__ import annotations

import asyncio
import socket
import struct
from typing import Final

from ingest_api.http1.counts import WireCounts

#: Closing with this tells the peer that what it got is not all.
_RESET: Final = struct.pack("ii", 1, 0)


class Outlet:
    """Used by one loop. Once it is over, what is written goes nowhere."""

    __slots__ = ("_counts", "_drainers", "_loop", "_sent", "_transport", "lingering", "over", "paused")

    def __init__(
        self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop, counts: WireCounts, most_unsent: int
    ) -> None:
        self._transport = transport
        self._loop = loop
        self._counts = counts
        self._drainers: list[asyncio.Future[None]] = []
        self._sent = 0
        #: Too much waits for the reader.
        self.paused = False
        #: Nothing more is said; the connection ends as soon as what was written has been taken.
        self.over = False
        #: Our side has ended, and the client's is waited for.
        self.lingering = False
        transport.set_write_buffer_limits(high=most_unsent)
        self._tell_kernel(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, most_unsent)

    @property
    def unsent(self) -> int:
        return self._transport.get_write_buffer_size()

    @property
    def taken(self) -> int:
        """How much was taken off our hands since the connection was made."""
        return self._sent - self.unsent

    def write(self, data: bytes) -> None:
        if data and not self.over:
            self._sent += len(data)
            self._counts.bytes_out += len(data)
            self._transport.write(data)

    def write_large(self, *pieces: bytes) -> None:
        """Without copying them into one block."""
        if not self.over:
            size = sum(map(len, pieces))
            self._sent += size
            self._counts.bytes_out += size
            self._transport.writelines(pieces)

    async def drain(self) -> None:
        """Wait until the reader has taken enough, or is gone."""
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
        """End it after what was written."""
        self.over = True
        self._transport.close()

    def linger(self) -> None:
        """End our side after what was written. To close at once, with bytes unread, would take it from its reader."""
        if self._transport.can_write_eof():
            self.over = self.lingering = True
            self._transport.write_eof()
        else:
            self.close()

    def abort(self) -> None:
        """End it so that nobody takes for whole what is not."""
        self.over = True
        self._tell_kernel(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        self._transport.abort()

    def _tell_kernel(self, level: int, option: int, value: int | bytes) -> None:
        """What is unsent must not pile up in the kernel either, which would hide how slow a reader is, too."""
        sock = self._transport.get_extra_info("socket")
        if sock is not None and sock.family != socket.AF_UNIX:
            sock.setsockopt(level, option, value)
