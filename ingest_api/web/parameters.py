"""Parameters of path and query: declared once; parsing and the OpenAPI document follow the declaration.

Nothing is coerced or repaired: a parameter must be known to the route, spelled exactly, and given once. A limit that is
too large or too small is clamped if its declaration says so. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, Protocol
from urllib.parse import unquote_to_bytes

from delta_log.model.quoting import quoted
from delta_log.model.topic_settings import INT64_MAX
from ingest_api.web.errors import Refusal

#: No number of more digits fits into 64 bits.
_MOST_DIGITS: Final = 19
_WHOLE: Final = re.compile(rf"0|-?[1-9][0-9]{{0,{_MOST_DIGITS - 1}}}")
_NOT_NEGATIVE: Final = re.compile(r"0|[1-9][0-9]*")


class Kind(Protocol):
    """Type of a parameter: `parse` returns the value, or None if the text breaks the rule `str(kind)`."""

    def parse(self, text: str) -> Any: ...
    def schema(self) -> dict[str, Any]: ...


@dataclass(frozen=True, slots=True)
class Whole:
    least: int = 0
    most: int = INT64_MAX

    def parse(self, text: str) -> int | None:
        if not _WHOLE.fullmatch(text):
            return None
        number = int(text)
        return number if self.least <= number <= self.most else None

    def schema(self) -> dict[str, Any]:
        return {"type": "integer", "format": "int64", "minimum": self.least, "maximum": self.most}

    def __str__(self) -> str:
        return f"a whole number from {self.least} to {self.most}"


@dataclass(frozen=True, slots=True)
class Clamped:
    """A whole number that is not negative, clamped to `least` … `most`."""

    least: int
    most: int

    def parse(self, text: str) -> int | None:
        if not _NOT_NEGATIVE.fullmatch(text):
            return None
        return self.most if len(text) > _MOST_DIGITS else min(max(int(text), self.least), self.most)

    def schema(self) -> dict[str, Any]:
        """Has no `format`: numbers beyond 64 bits are accepted, too."""
        return {"type": "integer", "minimum": 0}

    def __str__(self) -> str:
        return f"a whole number, 0 or more; it is clamped to {self.least} to {self.most}"


@dataclass(frozen=True, slots=True)
class Words:
    words: tuple[str, ...]

    def parse(self, text: str) -> str | None:
        return text if text in self.words else None

    def schema(self) -> dict[str, Any]:
        return {"type": "string", "enum": list(self.words)}

    def __str__(self) -> str:
        return f"one of {', '.join(self.words)}"


@dataclass(frozen=True, slots=True)
class Flag:
    def parse(self, text: str) -> bool | None:
        return {"true": True, "false": False}.get(text)

    def schema(self) -> dict[str, Any]:
        return {"type": "boolean"}

    def __str__(self) -> str:
        return "true or false"


@dataclass(frozen=True, slots=True)
class Text:
    most: int = 4096
    pattern: str | None = None

    def parse(self, text: str) -> str | None:
        if len(text) > self.most or (self.pattern is not None and not re.fullmatch(self.pattern, text)):
            return None
        return text

    def schema(self) -> dict[str, Any]:
        given: dict[str, Any] = {"type": "string", "maxLength": self.most}
        return given if self.pattern is None else given | {"pattern": f"^(?:{self.pattern})$"}

    def __str__(self) -> str:
        return f"text of at most {self.most} characters" + (f", like {self.pattern}" if self.pattern else "")


@dataclass(frozen=True, slots=True)
class OneOfKinds:
    """The first matching one of several kinds: a number or a word."""

    kinds: tuple[Kind, ...]

    def parse(self, text: str) -> Any:
        return next((value for value in (kind.parse(text) for kind in self.kinds) if value is not None), None)

    def schema(self) -> dict[str, Any]:
        return {"oneOf": [kind.schema() for kind in self.kinds]}

    def __str__(self) -> str:
        return " or ".join(map(str, self.kinds))


@dataclass(frozen=True, slots=True)
class Parameter:
    """A declared parameter; `default` is its value if the client gives none."""

    name: str
    kind: Kind
    doc: str
    place: Literal["path", "query", "header"] = "query"
    default: Any = None
    required: bool = False


def parse_query(raw: bytes, declared: Sequence[Parameter]) -> dict[str, Any]:
    """Parse a query string, with defaults for absent parameters."""
    values: dict[str, Any] = {given.name: given.default for given in declared}
    if not raw:
        return _checked(values, declared, ())
    known = {given.name: given for given in declared}
    seen: set[str] = set()
    for piece in raw.split(b"&"):
        if not piece:
            continue
        name_bytes, _, text_bytes = piece.partition(b"=")
        name, text = decode_percent(name_bytes, plus=True), decode_percent(text_bytes, plus=True)
        parameter = known.get(name)
        if parameter is None:
            names = ", ".join(known) or "none"
            raise Refusal(422, f"there is no query parameter {_shown(name)}: this route knows {names}")
        if name in seen:
            raise Refusal(422, f"the query parameter {name} is given twice")
        seen.add(name)
        values[name] = parse_value(parameter, text)
    return _checked(values, declared, seen)


def parse_value(parameter: Parameter, text: str) -> Any:
    value = parameter.kind.parse(text)
    if value is None:
        raise Refusal(422, f"{parameter.name}={_shown(text)} cannot be used: it must be {parameter.kind}")
    return value


def decode_percent(raw: bytes, *, plus: bool = False) -> str:
    """Decode percent-encoded UTF-8; invalid UTF-8 is refused, never replaced."""
    if plus and b"+" in raw:
        raw = raw.replace(b"+", b" ")
    try:
        return (unquote_to_bytes(raw) if b"%" in raw else raw).decode()
    except UnicodeDecodeError:
        raise Refusal(422, "what is percent-encoded in the URL must be UTF-8") from None


def _checked(values: dict[str, Any], declared: Sequence[Parameter], seen: Collection[str]) -> dict[str, Any]:
    absent = [given.name for given in declared if given.required and given.name not in seen]
    if absent:
        raise Refusal(422, f"the query parameter {absent[0]} is needed")
    return values


def _shown(text: str) -> str:
    return quoted(text)
