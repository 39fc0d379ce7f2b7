"""Curl commands for a server, as examples for people. Pure."""

from __future__ import annotations

import shlex
from urllib.parse import unquote

__all__ = ["curl_of"]

_UNIX = "http+unix://"


def curl_of(url: str) -> tuple[str, str]:
    """The command, and the beginning of its URLs."""
    if not url.startswith(_UNIX):
        return "curl", url
    return f"curl --unix-socket {shlex.quote(unquote(url.removeprefix(_UNIX)))}", "http://localhost"
