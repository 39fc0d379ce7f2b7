"""Addresses of servers for httpx: a URL, or the path of a Unix socket in one, as `http+unix://%2Ftmp%2Fx%2Fserver`."""

from __future__ import annotations

import re
from typing import Any, Final
from urllib.parse import unquote

import httpx

__all__ = ["client_options"]

_UNIX: Final = re.compile(r"http\+unix://([^/]+)/?", re.IGNORECASE)
#: URL, and so the Host header, of requests to a socket.
_HOST: Final = "http://localhost"


def client_options(url: str) -> dict[str, Any]:
    """Return arguments for `httpx.Client`."""
    found = _UNIX.fullmatch(url)
    if found is None:
        # Without encryption no certificates are loaded, which would take longer than a request.
        return {"base_url": url, "verify": url.lower().startswith("https:")}
    transport = httpx.HTTPTransport(uds=unquote(found[1]), verify=False)
    # No proxy of the environment reaches a socket of this machine.
    return {"base_url": _HOST, "transport": transport, "trust_env": False}
