"""The address by which a client reached the server, through any proxies: links in answers begin with it. Pure.

`Forwarded` overrides `X-Forwarded-*`, and both override `Host`, if the peer is a trusted proxy: any other client could
claim anything. Of several proxies the first one named counts: the one that the client spoke to. A value that cannot be
part of an address is ignored.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Final, NamedTuple

from ingest_api.web.request import Header, Scope

Network = ipaddress.IPv4Network | ipaddress.IPv6Network

_HOST: Final = re.compile(
    r"(?P<name>[A-Za-z0-9](?:[A-Za-z0-9._-]{0,252})|\[[0-9A-Fa-f:.]{2,45}\])(?::(?P<port>[0-9]{1,5}))?"
)
_PREFIX: Final = re.compile(r"(?:/[A-Za-z0-9._~!$&'()*+,;=:@%-]+){1,20}")
_PAIR: Final = re.compile(r'[ \t]*([A-Za-z0-9-]{1,40})=(?:"([^"\\]{0,300})"|([^",; \t]{1,300}))[ \t]*')
_SCHEMES: Final = {"http": 80, "https": 443}
_LONGEST: Final = 4096


class Address(NamedTuple):
    """Host and port as the client sees them; `base` is the part of a URL before a path of this server."""

    scheme: str
    host: str
    port: int
    prefix: str

    @property
    def origin(self) -> str:
        """The origin as a browser sends it."""
        port = "" if self.port == _SCHEMES[self.scheme] else f":{self.port}"
        return f"{self.scheme}://{self.host}{port}".lower()

    @property
    def base(self) -> str:
        port = "" if self.port == _SCHEMES[self.scheme] else f":{self.port}"
        return f"{self.scheme}://{self.host}{port}{self.prefix}"


def address_of(scope: Scope, trusted: tuple[str, ...]) -> Address:
    """The address that a request was sent to; `trusted` are the addresses and networks of proxies."""
    server = scope.get("server") or ("localhost", None)
    believed = is_trusted(scope.get("client"), trusted)
    return find_address(scope["headers"], scope.get("scheme", "http"), server, believed=believed)


def is_trusted(client: tuple[str, int] | None, trusted: tuple[str, ...]) -> bool:
    """True if the peer of a connection is a trusted proxy. The peer of a Unix socket has no address, and never is."""
    if not trusted or not client:
        return False
    try:
        address = ipaddress.ip_address(client[0].partition("%")[0])
    except ValueError:
        return False
    address = getattr(address, "ipv4_mapped", None) or address
    return any(address in network for network in _networks(trusted))


@lru_cache(16)
def _networks(trusted: tuple[str, ...]) -> tuple[Network, ...]:
    return tuple(map(ipaddress.ip_network, trusted))


def find_address(headers: Sequence[Header], scheme: str, server: tuple[str, int | None], *, believed: bool) -> Address:
    forwarded = _forwarded(_values(headers, b"forwarded")) if believed else {}

    def said(name: str) -> Iterable[str]:
        if believed:
            yield from (forwarded[name],) if name in forwarded else ()
            yield from _first(_values(headers, b"x-forwarded-" + name.encode()))

    schemes = (given.lower() for given in said("proto"))
    scheme = next((given for given in schemes if given in _SCHEMES), scheme if scheme in _SCHEMES else "http")
    prefix = next((given.rstrip("/") for given in said("prefix") if _PREFIX.fullmatch(given.rstrip("/"))), "")
    for given in (*said("host"), *_values(headers, b"host")):
        found = _HOST.fullmatch(given)
        if found is not None and int(found["port"] or 1) in range(1, 65536):
            ports = _first(_values(headers, b"x-forwarded-port")) if believed else []
            port = found["port"] or next(iter(ports), "")
            return Address(scheme, found["name"], _port(port) or _SCHEMES[scheme], prefix)
    host, number = server
    return Address(scheme, f"[{host}]" if ":" in host else host, number or _SCHEMES[scheme], prefix)


def _values(headers: Sequence[Header], name: bytes) -> list[str]:
    return [value.decode("latin-1") for given, value in headers if given == name and len(value) <= _LONGEST]


def _first(values: list[str]) -> list[str]:
    return [values[0].partition(",")[0].strip(" \t")] if values else []


def _port(text: str) -> int | None:
    return int(text) if re.fullmatch(r"[1-9][0-9]{0,4}", text) and int(text) < 65536 else None


def _forwarded(values: list[str]) -> dict[str, str]:
    """Parse the pairs of the first element of `Forwarded`."""
    pairs: dict[str, str] = {}
    text, at = values[0] if values else "", 0
    while found := _PAIR.match(text, at):
        pairs.setdefault(found[1].lower(), found[2] if found[2] is not None else found[3])
        at = found.end()
        if text[at : at + 1] != ";":
            break
        at += 1
    return pairs
