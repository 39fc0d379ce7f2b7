"""The names of this server that are valid in `Host`. Pure.

Protection against DNS rebinding: the owner of a web page can let the page's own name resolve to this machine; the page
then has the same origin as this server. The name in `Host` reveals it, so only names of this server are served. An IP
address is always served: no name server is involved, so its page is one of this very address.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable
from typing import Final, NamedTuple

ANY: Final = "*"
_HOST: Final = re.compile(
    r"(?:\[(?P<address>[0-9a-f:.]{2,45})\]|(?P<name>[a-z0-9_](?:[a-z0-9._-]{0,252})?))(?::[0-9]{0,5})?"
)
_LOCAL: Final = "localhost"
#: Most spellings that are remembered.
_MOST: Final = 256


class Named(NamedTuple):
    """The value of `Host`, without its port."""

    name: str
    is_address: bool


def read_host(given: bytes) -> Named | None:
    """Parse `Host`; None if it is invalid. `1` and `0x7f.1` are names here: browsers send canonical addresses."""
    found = _HOST.fullmatch(given.decode("latin-1").lower())
    if found is None:
        return None
    if found["address"] is not None:
        return Named(found["address"], is_address=True) if _is_address(found["address"], 6) else None
    name = found["name"].removesuffix(".")
    return Named(name, is_address=_is_address(name, 4))


class Hosts:
    """The names of one server."""

    def __init__(self, own: Iterable[str] = (), advertised: Iterable[str] = ()) -> None:
        self._any = ANY in advertised
        self._names = frozenset({_LOCAL, *map(_plain, own), *map(_plain, advertised)})
        #: Spellings that were served before; bounded.
        self.met: set[bytes] = set()

    def learn(self, own: Iterable[str]) -> None:
        """Add names. Called by any thread."""
        self._names |= frozenset(map(_plain, own))

    def serves(self, given: bytes) -> bool:
        """True if the value of a Host field names this server."""
        if given in self.met:
            return True
        if not self._is_served(given):
            return False
        if len(self.met) < _MOST:
            self.met.add(given)
        return True

    def _is_served(self, given: bytes) -> bool:
        if self._any:
            return True
        named = read_host(given)
        if named is None:
            return False
        return named.is_address or named.name in self._names or named.name.endswith("." + _LOCAL)


def _plain(name: str) -> str:
    return name.lower().removesuffix(".").strip("[]")


def _is_address(text: str, version: int) -> bool:
    try:
        return ipaddress.ip_address(text).version == version
    except ValueError:
        return False
