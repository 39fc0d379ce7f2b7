"""The network: httpx, in threads and in tasks. Knows which failures prove that nothing was sent, and nothing else.

A request counts as sent unless it is known to have failed before the first byte.
"""

from __future__ import annotations

from typing import Any, Final

import httpx

from lakelog import __version__
from lakelog.transport.addresses import async_client_options, client_options
from lakelog.transport.exchange import Answer, AnswerLost, NotSent, Outcome, Request

_NOT_SENT: Final = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout, httpx.UnsupportedProtocol)


class HttpTransport:
    """Transport for threads. `address` is the server's, without a slash at its end."""

    def __init__(self, address: str, client_id: str, connections: int) -> None:
        self._client = httpx.Client(**_headers(client_id), **client_options(address, **_limits(connections)))

    def send(self, request: Request) -> Outcome:
        try:
            answer = self._client.request(
                request.method,
                request.path,
                content=request.body,
                headers=request.headers,
                timeout=request.timeout_s,
            )
        except _NOT_SENT as error:
            return NotSent(_shown(error))
        except (httpx.HTTPError, httpx.StreamError) as error:
            return AnswerLost(_shown(error))
        return Answer(answer.status_code, answer.headers, answer.content)

    def close(self) -> None:
        self._client.close()


class AsyncHttpTransport:
    def __init__(self, address: str, client_id: str, connections: int) -> None:
        self._client = httpx.AsyncClient(**_headers(client_id), **async_client_options(address, **_limits(connections)))

    async def send(self, request: Request) -> Outcome:
        try:
            answer = await self._client.request(
                request.method,
                request.path,
                content=request.body,
                headers=request.headers,
                timeout=request.timeout_s,
            )
        except _NOT_SENT as error:
            return NotSent(_shown(error))
        except (httpx.HTTPError, httpx.StreamError) as error:
            return AnswerLost(_shown(error))
        return Answer(answer.status_code, answer.headers, answer.content)

    async def close(self) -> None:
        await self._client.aclose()


def _headers(client_id: str) -> dict[str, Any]:
    return {"headers": {"User-Agent": f"{client_id} lakelog/{__version__}", "Accept-Encoding": "identity"}}


def _limits(connections: int) -> dict[str, Any]:
    return {"limits": httpx.Limits(max_connections=connections, max_keepalive_connections=connections)}


def _shown(error: Exception) -> str:
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
