"""Checks of values of settings: each returns the value in its own type, or None, and states its rule."""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass
from typing import Any, Final, Protocol

import msgspec

_LINE: Final = re.compile(r"[^\x00-\x1f\x7f]{1,4096}")
_FUNCTION: Final = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*:[A-Za-z_]\w*", re.ASCII)
_HOST: Final = re.compile(r"\*|[A-Za-z0-9_](?:[A-Za-z0-9._-]{0,252})|[0-9A-Fa-f:.]{2,45}")
_ORIGIN: Final = re.compile(r"\*|https?://[A-Za-z0-9.\-\[\]:]+")


class Check(Protocol):
    """Returns the value, or None if it breaks the rule that `str` states."""

    def __call__(self, given: Any, /) -> Any: ...


@dataclass(frozen=True, slots=True)
class Flag:
    def __call__(self, given: object) -> bool | None:
        if isinstance(given, bool):
            return given
        return {"true": True, "false": False}.get(given) if isinstance(given, str) else None

    def __str__(self) -> str:
        return "true or false"


@dataclass(frozen=True, slots=True)
class Text:
    """A line of text; `what` is its rule."""

    what: str

    def __call__(self, given: object) -> str | None:
        return given if isinstance(given, str) and _LINE.fullmatch(given) else None

    def __str__(self) -> str:
        return self.what


@dataclass(frozen=True, slots=True)
class SocketPath:
    """A path that fits into the address of a socket, on any system."""

    most: int = 103

    def __call__(self, given: object) -> str | None:
        if given == "":
            return ""
        fits = isinstance(given, str) and _LINE.fullmatch(given) and len(given.encode(errors="replace")) <= self.most
        return given if fits and isinstance(given, str) else None

    def __str__(self) -> str:
        return f"a path of at most {self.most} bytes, or nothing"


@dataclass(frozen=True, slots=True)
class Origins:
    """A list, or its members with commas between them."""

    def __call__(self, given: object) -> tuple[str, ...] | None:
        origins = _split(given)
        return origins if origins is not None and all(map(_ORIGIN.fullmatch, origins)) else None

    def __str__(self) -> str:
        return "* or origins with commas between them, each as http://host or https://host:port"


@dataclass(frozen=True, slots=True)
class Hosts:
    """A list, or its members with commas between them."""

    def __call__(self, given: object) -> tuple[str, ...] | None:
        hosts = _split(given)
        return hosts if hosts is not None and all(map(_HOST.fullmatch, hosts)) else None

    def __str__(self) -> str:
        return "* or host names with commas between them, without ports"


@dataclass(frozen=True, slots=True)
class Networks:
    """A list, or its members with commas between them."""

    def __call__(self, given: object) -> tuple[str, ...] | None:
        networks = _split(given)
        return networks if networks is not None and all(map(_is_network, networks)) else None

    def __str__(self) -> str:
        return "addresses or networks with commas between them, each as 10.0.0.7 or 10.0.0.0/8"


@dataclass(frozen=True, slots=True)
class Functions:
    """A list of functions as `module:function`, or its members with commas between them."""

    def __call__(self, given: object) -> tuple[str, ...] | None:
        names = _split(given)
        return names if names is not None and all(map(_FUNCTION.fullmatch, names)) else None

    def __str__(self) -> str:
        return "functions with commas between them, each as package.module:function"


@dataclass(frozen=True, slots=True)
class Options:
    """A table of strings, or pairs in a list or with commas between them."""

    def __call__(self, given: object) -> tuple[tuple[str, str], ...] | None:
        try:
            pairs = tuple(msgspec.convert(given, dict[str, str]).items())
        except msgspec.ValidationError:
            members = _split(given)
            if members is None:
                return None
            pairs = tuple((key, value) for key, _, value in (member.partition("=") for member in members))
        return pairs if all(map(all, pairs)) and len(dict(pairs)) == len(pairs) else None

    def __str__(self) -> str:
        return "KEY=VALUE, each key once"


def _split(given: object) -> tuple[str, ...] | None:
    """Return the members of a list of strings; a string is split at its commas."""
    if isinstance(given, str):
        return tuple(part.strip() for part in given.split(",") if part.strip())
    try:
        return msgspec.convert(given, tuple[str, ...])
    except msgspec.ValidationError:
        return None


def _is_network(text: str) -> bool:
    try:
        ipaddress.ip_network(text)
    except ValueError:
        return False
    return True
