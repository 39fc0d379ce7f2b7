"""Server addresses for httpx: a URL, or a Unix socket's path in one, as `http+unix://%2Frun%2Flakelog.sock`."""

from __future__ import annotations

import re
from typing import Any, Final
from urllib.parse import unquote

import httpx

__all__ = ["async_client_options", "client_options"]

_UNIX: Final = re.compile(r"http\+unix://([^/]+)/?", re.IGNORECASE)
#: Base URL of requests to a socket; it gives their Host header.
_HOST: Final = "http://localhost"


def client_options(url: str, **transport: Any) -> dict[str, Any]:
    """Arguments of `httpx.Client`; `transport`: further arguments, which transports accept, too."""
    path = _path_of(url)
    if path is None:
        return _of_url(url) | transport
    return _of_socket(httpx.HTTPTransport(uds=path, verify=False, **transport))


def async_client_options(url: str, **transport: Any) -> dict[str, Any]:
    path = _path_of(url)
    if path is None:
        return _of_url(url) | transport
    return _of_socket(httpx.AsyncHTTPTransport(uds=path, verify=False, **transport))


def _path_of(url: str) -> str | None:
    found = _UNIX.fullmatch(url)
    return None if found is None else unquote(found[1])


def _of_url(url: str) -> dict[str, Any]:
    # Without encryption no certificates are loaded: that takes longer than a request.
    return {"base_url": url, "verify": url.lower().startswith("https:")}


def _of_socket(transport: httpx.HTTPTransport | httpx.AsyncHTTPTransport) -> dict[str, Any]:
    """Arguments for a socket; they ignore the environment's proxies, none of which reaches a local socket."""
    return {"base_url": _HOST, "transport": transport, "trust_env": False}
