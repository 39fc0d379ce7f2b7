"""One request and what becomes of it; the seam behind which the network is. Knows no route, no clock, no socket."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, Protocol


class Request(NamedTuple):
    """`path` is what follows the server's address, with its query. `timeout_s` bounds each wait for the network."""

    method: str
    path: str
    headers: Mapping[str, str] = {}
    body: bytes = b""
    timeout_s: float = 30.0


class Answer(NamedTuple):
    """The whole answer, whatever its status. Names of `headers` are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class NotSent(NamedTuple):
    """The server cannot have seen the request: no connection was made."""

    why: str


class AnswerLost(NamedTuple):
    """The request was sent, at least in part, and no whole answer came: what it did is unknown."""

    why: str


#: The closed set of what can become of a request. None of it is an exception: a driver passes it on as it is.
Outcome = Answer | NotSent | AnswerLost


class Transport(Protocol):
    """May be called by several threads at once."""

    def send(self, request: Request) -> Outcome: ...

    def close(self) -> None: ...


class AsyncTransport(Protocol):
    """May be called by several tasks of one event loop at once."""

    async def send(self, request: Request) -> Outcome: ...

    async def close(self) -> None: ...
