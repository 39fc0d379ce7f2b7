"""How httpx is told of a server: by a URL, or by the path of a Unix socket in one, as `http+unix://%2Ftmp%2Fx%2Fserver`."""

from __future__ import annotations

import re
from typing import Any, Final
from urllib.parse import unquote

import httpx

__all__ = ["client_options"]

_UNIX: Final = re.compile(r"http\+unix://([^/]+)/?", re.IGNORECASE)
#: What stands in the Host of a request to a socket.
_HOST: Final = "http://localhost"


def client_options(url: str) -> dict[str, Any]:
    """Arguments of `httpx.Client`."""
    found = _UNIX.fullmatch(url)
    if found is None:
        # Where nothing is encrypted nobody's certificates need be read, which takes longer than a request.
        return {"base_url": url, "verify": url.lower().startswith("https:")}
    transport = httpx.HTTPTransport(uds=unquote(found[1]), verify=False)
    # None of the proxies that the environment names reaches a socket of this machine.
    return {"base_url": _HOST, "transport": transport, "trust_env": False}
