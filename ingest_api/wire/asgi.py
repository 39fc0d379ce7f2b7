"""The few types of ASGI, and what uvicorn hands to a protocol. Declarations alone."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, Protocol

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]
Headers = list[tuple[bytes, bytes]]


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
