"""Requests and their outcomes; the interface to the network. Knows no route, no clock, no socket."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, Protocol


class Request(NamedTuple):
    """An HTTP request. `path` follows the server's address, with the query; `timeout_s` bounds each network wait."""

    method: str
    path: str
    headers: Mapping[str, str] = {}
    body: bytes = b""
    timeout_s: float = 30.0


class Answer(NamedTuple):
    """A complete answer of any status. Names of `headers` are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class NotSent(NamedTuple):
    """The server cannot have seen the request: no connection was made."""

    why: str


class AnswerLost(NamedTuple):
    """The request was sent, at least in part, and no complete answer came: its effect is unknown."""

    why: str


#: The closed set of outcomes of a request. None is an exception: a driver passes it on as a value.
Outcome = Answer | NotSent | AnswerLost


class Transport(Protocol):
    """Sends requests; may be called by several threads at once."""

    def send(self, request: Request) -> Outcome: ...

    def close(self) -> None: ...


class AsyncTransport(Protocol):
    """Sends requests; may be called by several tasks of one event loop at once."""

    async def send(self, request: Request) -> Outcome: ...

    async def close(self) -> None: ...
