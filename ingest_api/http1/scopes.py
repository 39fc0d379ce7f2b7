"""Makes the ASGI scope of a request and its connection. Values in, values out."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from ingest_api.http1.request_head import Head

_ASGI: Final = {"version": "3.0", "spec_version": "2.3"}


class Place(NamedTuple):
    """The part of a scope that all requests of a connection share."""

    scheme: str
    client: tuple[str, int] | None
    server: tuple[str, int] | None
    state: dict[str, Any]


def address(name: Any) -> tuple[str, int] | None:
    """A socket's name as ASGI has it; None for a Unix socket, whose name is a path or empty."""
    return None if not name or isinstance(name, (str, bytes)) else (name[0], name[1])


def make_scope(head: Head, place: Place) -> dict[str, Any]:
    return {
        "type": "http",
        "asgi": _ASGI,
        "http_version": head.version,
        "method": head.method,
        "scheme": place.scheme,
        "path": head.path,
        "raw_path": head.raw_path,
        "query_string": head.query,
        "root_path": "",
        "headers": head.headers.copy(),
        "client": place.client,
        "server": place.server,
        "state": place.state,
        "extensions": {},
    }
