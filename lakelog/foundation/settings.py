"""Settings of clients: declared once, under Kafka's names, and read strictly. Pure.

A client gets a mapping of dotted names. An undeclared name is refused, as a setting without effect misleads. Numbers
may be text, as in a properties file. The tables of the reference are generated from the declarations.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple, Protocol
from urllib.parse import urlsplit

from lakelog.foundation.errors import InvalidSetting

INT32_MAX: Final = 2**31 - 1
INT64_MAX: Final = 2**63 - 1
_WHOLE: Final = re.compile(r"-?(?:0|[1-9][0-9]{0,18})")
_AGENT: Final = re.compile(r"[!-~](?:[ -~]*[!-~])?")
#: A Unix socket, its absolute path as one part of a URL.
_UNIX: Final = re.compile(r"http\+unix://%2F[^\s/?#\x00-\x1f]+/?", re.IGNORECASE)
_MOST_AGENT: Final = 255
#: Settings of Kafka's clients that are not supported yet, and what to do instead.
_NOT_YET: Final = {
    "security.protocol": "there is no authentication yet; give bootstrap.servers with https:// for an encrypted one",
    "sasl.mechanism": "there is no authentication yet",
}


class Kind(Protocol):
    """Type of a setting. `read` raises a ValueError for a wrong value; `allowed` describes right ones."""

    @property
    def allowed(self) -> str: ...

    def read(self, given: object) -> Any: ...


class Setting(NamedTuple):
    """Declaration of a setting. `default` is None if there is none; a `required` one must be given."""

    name: str
    kind: Kind
    default: Any
    doc: str
    required: bool = False


class Whole(NamedTuple):
    least: int
    most: int

    @property
    def allowed(self) -> str:
        if self.most == INT64_MAX:
            return f"a whole number, {self.least} or more"
        return f"a whole number from {self.least} to {self.most}"

    def read(self, given: object) -> int:
        if isinstance(given, str) and _WHOLE.fullmatch(given):
            given = int(given)
        if type(given) is not int or not self.least <= given <= self.most:
            raise ValueError(self.allowed)
        return given


class Flag(NamedTuple):
    @property
    def allowed(self) -> str:
        return "true or false"

    def read(self, given: object) -> bool:
        match given:
            case bool():
                return given
            case "true" | "false":
                return given == "true"
            case _:
                raise ValueError(self.allowed)


class Word(NamedTuple):
    """A word of a fixed list, or, with `callables`, a function."""

    words: tuple[str, ...]
    callables: bool = False

    @property
    def allowed(self) -> str:
        return ", ".join(self.words) + (", or a callable" if self.callables else "")

    def read(self, given: object) -> Any:
        if isinstance(given, int) and not isinstance(given, bool):
            given = str(given)
        if given in self.words or (self.callables and callable(given)):
            return given
        raise ValueError(self.allowed)


class Agent(NamedTuple):
    """Text that is valid in an HTTP header."""

    @property
    def allowed(self) -> str:
        return f"1 to {_MOST_AGENT} printable ASCII characters"

    def read(self, given: object) -> str:
        if isinstance(given, str) and len(given) <= _MOST_AGENT and _AGENT.fullmatch(given):
            return given
        raise ValueError(self.allowed)


class Address(NamedTuple):
    """Address of the server: a URL, or host and port, for plain HTTP."""

    @property
    def allowed(self) -> str:
        return "one URL, such as http://localhost:8082 or http+unix://%2Frun%2Flakelog.sock, or one host:port"

    def read(self, given: object) -> str:
        if not isinstance(given, str) or "," in given or not given.strip():
            raise ValueError(self.allowed)
        url = given.strip() if "://" in given else f"http://{given.strip()}"
        if _UNIX.fullmatch(url):
            return url.rstrip("/")
        try:
            parts = urlsplit(url)
            port = parts.port
        except ValueError:
            raise ValueError(self.allowed) from None
        unusable = parts.scheme not in ("http", "https") or not parts.hostname or port == 0
        if unusable or parts.query or parts.fragment or re.search(r"[\s\x00-\x1f]", url):
            raise ValueError(self.allowed)
        return url.rstrip("/")


def read_settings(given: Mapping[str, object], declared: Sequence[Setting]) -> dict[str, Any]:
    """Read the declared settings; names get underscores in place of dots."""
    known = {setting.name for setting in declared}
    for name in given:
        if name not in known:
            raise InvalidSetting(str(name), _NOT_YET.get(str(name)) or f"there is no such setting{_hint(name, known)}")
    values: dict[str, Any] = {}
    for setting in declared:
        values[setting.name.replace(".", "_")] = _read(setting, given)
    return values


def _read(setting: Setting, given: Mapping[str, object]) -> Any:
    if setting.name not in given:
        if setting.required:
            raise InvalidSetting(setting.name, f"it must be given: {setting.kind.allowed}")
        return setting.default
    value = given[setting.name]
    try:
        return setting.kind.read(value)
    except ValueError as error:
        raise InvalidSetting(setting.name, f"{value!r} cannot be used: {error}") from None


def _hint(name: object, known: Iterable[str]) -> str:
    """Suggest a setting of similar name, also for underscores or another client's spelling."""
    alike = difflib.get_close_matches(str(name).replace("_", "."), known, 1, 0.7)
    return f"; is {alike[0]} meant?" if alike else ""


#: The settings that every client has.
SHARED: Final = (
    Setting("bootstrap.servers", Address(), None, "The server.", required=True),
    Setting("client.id", Agent(), "lakelog-python", "Named to the server, in `User-Agent`."),
    Setting("request.timeout.ms", Whole(1, INT32_MAX), 30_000, "How long each wait for the network may last."),
    Setting(
        "retry.backoff.ms", Whole(0, INT64_MAX), 100,
        "How long to wait before the second attempt; each further one waits twice as long, a fifth more or less.",
    ),
    Setting("retry.backoff.max.ms", Whole(0, INT64_MAX), 1_000, "The longest such wait."),
)  # fmt: skip
