"""The few types of ASGI, and what uvicorn hands to a protocol. Declarations alone."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, Final, Protocol

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]
Headers = list[tuple[bytes, bytes]]

#: The name of what an exchange offers beyond ASGI among the extensions of a scope.
AT_ONCE: Final = "lakelog.at_once"


class DirectReply(Protocol):
    """What takes several steps by ASGI, in one where all is at hand."""

    @property
    def notes(self) -> dict[str, Any]:
        """What an app noted of this head. Who meets the same head again on this connection finds it here.

        It is the same whatever `producer-seq` says, if that is a number: what follows from it is not to be noted.
        """
        ...

    part: int
    """Which part of a stream an app holds, to be set by the app: each has the time that a body has; below 0: none."""

    @property
    def gone(self) -> bool:
        """Nobody can read an answer any more: what is sent goes nowhere."""
        ...

    def take_body(self) -> bytes | None:
        """The body, if all of it has arrived; else it is there to be received."""
        ...

    def answer(self, status: int, fields: bytes, body: bytes) -> bool:
        """Give the whole answer, of a status that has a body; `fields` are sound lines. False: await `drain`."""
        ...

    async def drain(self) -> None: ...


class ServerConfig(Protocol):
    """What is asked of `uvicorn.Config`."""

    loaded: bool
    loaded_app: Any

    def load(self) -> None: ...


class ServerState(Protocol):
    """What is asked of `uvicorn.server.ServerState`."""

    total_requests: int
    connections: set[Any]
    tasks: set[asyncio.Task[None]]
    default_headers: Headers
