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

#: Key of a `DirectReply` in the extensions of a scope.
AT_ONCE: Final = "lakelog.at_once"


class DirectReply(Protocol):
    """Shortcut beside ASGI: take a whole body, or give a whole answer, in one step."""

    @property
    def notes(self) -> dict[str, Any]:
        """Cache of an app for this head, found again when the connection repeats the same head.

        The cache ignores the value of `producer-seq` if it is a number: never cache anything derived from it.
        """
        ...

    part: int
    """Part of a stream that the app holds, set by the app. Each part has the deadlines of a body; below 0: no part."""

    @property
    def gone(self) -> bool:
        """An answer cannot be delivered any more; it is discarded."""
        ...

    def take_body(self) -> bytes | None:
        """The whole body; None if it has not all arrived, and is to be read by `receive`."""
        ...

    def answer(self, status: int, fields: bytes, body: bytes) -> bool:
        """Send a whole answer of a status that has a body; `fields` are valid header lines. False: await `drain`."""
        ...

    async def drain(self) -> None: ...


class ServerConfig(Protocol):
    """The part of `uvicorn.Config` that is used."""

    loaded: bool
    loaded_app: Any

    def load(self) -> None: ...


class ServerState(Protocol):
    """The part of `uvicorn.server.ServerState` that is used."""

    total_requests: int
    connections: set[Any]
    tasks: set[asyncio.Task[None]]
    default_headers: Headers
