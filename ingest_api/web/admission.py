"""Admission: checks the host name of a request, the web page that sent it, and the type of its body.

Decides by the head alone, so one decision holds for all requests that repeat the head. Knows no route.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from ingest_api.config.settings import ServerSettings
from ingest_api.web.cross_site import FIELDS, Fields, check_page, looks_like_browser, media_type
from ingest_api.web.errors import Refusal
from ingest_api.web.forwarded import Address, address_of
from ingest_api.web.hosts import Hosts
from ingest_api.web.negotiation import is_known
from ingest_api.web.request import Header, Scope
from ingest_api.web.route_spec import Operation

#: The name in `Host` is none of this server's.
UNKNOWN_HOST: Final = 42101
#: A body has no Content-Type.
UNTYPED: Final = 41501
_FIELDS: Final = FIELDS | {b"host", b"content-length", b"transfer-encoding"}
_FORM: Final = "application/x-www-form-urlencoded"
_SHOWN: Final = 100
_MOST_TYPES: Final = 64


class Door:
    """Used by one event loop."""

    def __init__(self, settings: ServerSettings, hosts: Hosts) -> None:
        self._origins = settings.cors_origins
        self._proxies = settings.trusted_proxies
        self._hosts = hosts
        #: Content types, as sent, that some route is known to take; bounded.
        self._types: set[bytes] = set()

    def admit(self, operation: Operation, scope: Scope) -> None:
        """Refuse a request before its operation acts."""
        headers = scope["headers"]
        fields = dict(headers)
        if (
            len(fields) < len(headers)
            or fields.get(b"host") not in self._hosts.met
            or self._proxies
            or not (operation.reads or self._is_plain(fields))
        ):
            self._judge(operation, scope, _gather(headers))

    def _is_plain(self, fields: Fields) -> bool:
        """Fast path: a request as programs send it passes without the full check."""
        if b"origin" in fields or b"sec-fetch-site" in fields:
            return False
        media = fields.get(b"content-type")
        if media is not None:
            return media in self._types
        has_body = b"content-length" in fields or b"transfer-encoding" in fields
        return not has_body and not looks_like_browser(fields)

    def _judge(self, operation: Operation, scope: Scope, fields: Fields) -> None:
        if not operation.under_any_name:
            self._check_host(scope, fields)
        if not operation.reads:
            check_page(scope["method"], fields, lambda: self._address(scope), self._origins)
            check_type(operation, fields)
            if len(self._types) < _MOST_TYPES and is_known(media_type(fields)):
                self._types.add(fields[b"content-type"])

    def serves(self, scope: Scope) -> bool:
        """True if a request names this server in `Host`."""
        try:
            self._check_host(scope, _gather(scope["headers"]))
        except Refusal:
            return False
        return True

    def _check_host(self, scope: Scope, fields: Fields) -> None:
        """Check `Host`, and a host that a proxy forwards likewise: DNS rebinding may be aimed at the proxy."""
        host = fields.get(b"host")
        if host is not None and not self._hosts.serves(host):
            raise _misdirected(host.decode("latin-1"))
        if host is None and scope["http_version"] != "1.0":  # optional there; browsers speak 1.1
            raise _misdirected("")
        if self._proxies:
            forwarded = self._address(scope).host
            if not self._hosts.serves(forwarded.encode("latin-1")):
                raise _misdirected(forwarded)

    def _address(self, scope: Scope) -> Address:
        return address_of(scope, self._proxies)


def check_type(operation: Operation, fields: Fields) -> None:
    """Refuse a body without a type, and a type that no route takes, even on a request without a body.

    Browsers send those cross-origin without a preflight. `curl -d ''` sends such a type with an empty body; that passes
    unless a browser sent it. Which of the known types a body may have is checked by its route.
    """
    media = media_type(fields)
    has_body = b"transfer-encoding" in fields or fields.get(b"content-length", b"0").strip(b"0") != b""
    if media is None:
        if has_body:
            raise Refusal(415, f"the body needs a Content-Type: {_taken(operation)}", code=UNTYPED)
    elif not (has_body and operation.body is not None) and not is_known(media) and not _is_empty_of_curl(fields, media):
        shown = fields[b"content-type"].decode("latin-1")[:_SHOWN]
        raise Refusal(415, f"Content-Type {shown!r} is not accepted here: {_taken(operation)}")


def _is_empty_of_curl(fields: Fields, media: str) -> bool:
    return fields.get(b"content-length") == b"0" and media == _FORM and not looks_like_browser(fields)


def _taken(operation: Operation) -> str:
    if operation.body is None:
        return "this route takes no body"
    return f"this route takes {', '.join(operation.body.types)}"


def _gather(headers: Sequence[Header]) -> dict[bytes, bytes]:
    fields: dict[bytes, bytes] = {}
    for name, value in headers:
        if name in _FIELDS:
            fields[name] = fields[name] + b"," + value if name in fields else value
    return fields


def _misdirected(host: str) -> Refusal:
    shown = host if len(host) <= _SHOWN else host[:_SHOWN] + "…"
    text = f"this server is not known as {shown!r}: name it in the setting advertised_hosts, if it is"
    return Refusal(421, text, code=UNKNOWN_HOST)
