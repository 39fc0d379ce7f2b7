"""A Unix socket to listen on, for the user of the server alone.

Two guards: the mode of the socket, which the system checks when a client connects, and the user id of a connected
client, if the system reports it. It must not know HTTP.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import stat
import struct
from collections.abc import Generator
from pathlib import Path
from typing import Any, Final

from ingest_api.http1 import Connection
from ingest_api.server.listener import CannotListen

__all__ = ["for_own_user", "listening_at"]

_BACKLOG: Final = 2048
_OWNER_ALONE: Final = 0o600
#: Process, user and group of a peer, as Linux reports them.
_PEER: Final = struct.Struct("3i")
_SAYS_PEER: Final[int | None] = getattr(socket, "SO_PEERCRED", None)
_ROOT: Final = 0


@contextlib.contextmanager
def listening_at(path: str) -> Generator[socket.socket]:
    """Listen on a socket of this name, removed at the end of the block. One left by a killed server is replaced."""
    place = Path(path).absolute()
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        try:
            _make_way(place)
            listener.bind(str(place))
            # Before the socket listens, so that no client connects in between.
            place.chmod(_OWNER_ALONE)
            ours = place.stat().st_ino
            listener.listen(_BACKLOG)
        except OSError as error:
            raise _cannot(path, error.strerror or str(error)) from None
        listener.setblocking(False)  # noqa: FBT003 - the socket's own signature
        try:
            yield listener
        finally:
            with contextlib.suppress(OSError):
                if place.stat().st_ino == ours:
                    place.unlink()


def for_own_user(protocol: type[Connection]) -> type[Connection]:
    """Return a protocol that cuts off clients of any user but the server's own and root."""

    class OwnUser(protocol):
        __slots__ = ()

        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            super().connection_made(transport)
            if not _is_ours(transport.get_extra_info("socket")):
                self.cut_off("other_user")

    return OwnUser


def _is_ours(peer: Any) -> bool:
    """True for a peer of an allowed user. Without such a report by the system, only the mode of the socket guards."""
    if _SAYS_PEER is None:
        return True
    _, user, _ = _PEER.unpack(peer.getsockopt(socket.SOL_SOCKET, _SAYS_PEER, _PEER.size))
    return user in (os.geteuid(), _ROOT)


def _make_way(place: Path) -> None:
    """Remove the socket of a dead server; anything else at this path stays, and is an error."""
    with contextlib.suppress(FileNotFoundError):
        if not stat.S_ISSOCK(place.lstat().st_mode):
            raise _cannot(str(place), "another file has this name")
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
            try:
                probe.connect(str(place))
            except ConnectionRefusedError:
                place.unlink()
            else:
                raise _cannot(str(place), "another server listens there")


def _cannot(path: str, why: str) -> CannotListen:
    return CannotListen(f"the Unix socket {path} cannot be used: {why}; choose another with --unix-socket")
