"""The format that a client accepts or sends: `Accept` and `Content-Type`, parsed strictly. Knows no route. Pure.

A media type of v1 means its v2 twin, and one without a format of its own (`application/vnd.kafka.v2+json`) means
binary, as Karapace has it; `application/json` means the json envelope.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from enum import StrEnum
from functools import lru_cache
from typing import Final, NamedTuple, TypeVar

from delta_log.model.quoting import quoted
from ingest_api.web.errors import Refusal


class Format(StrEnum):
    """Formats of records, by the media type that answers have."""

    BINARY = "application/vnd.kafka.binary.v2+json"
    JSON = "application/vnd.kafka.json.v2+json"
    NDJSON = "application/x-ndjson"
    ARROW = "application/vnd.apache.arrow.stream"
    EVENTS = "text/event-stream"
    OCTETS = "application/octet-stream"


#: Every media type that means a format.
FORMATS: Final[Mapping[str, Format]] = {
    **{media: media for media in Format},
    "application/vnd.kafka.binary.v1+json": Format.BINARY,
    "application/vnd.kafka.binary+json": Format.BINARY,
    "application/vnd.kafka.v2+json": Format.BINARY,
    "application/vnd.kafka.v1+json": Format.BINARY,
    "application/vnd.kafka+json": Format.BINARY,
    "application/vnd.kafka.json.v1+json": Format.JSON,
    "application/vnd.kafka.json+json": Format.JSON,
    "application/json": Format.JSON,
}
V2_JSON: Final = b"application/vnd.kafka.v2+json"
#: Media type of an answer without records, by the type asked for; all types of v2 mean v2's.
_PLAIN: Final[Mapping[str, bytes]] = {
    "application/vnd.kafka.v2+json": V2_JSON,
    "application/json": b"application/json",
    "application/vnd.kafka+json": b"application/vnd.kafka+json",
    **{
        media: V2_JSON
        for media in FORMATS
        if media.startswith("application/vnd.kafka.") and media != "application/vnd.kafka.v2+json"
    },
}

_SCHEMA_TYPE: Final = re.compile(r"application/vnd\.kafka\.(?:avro|jsonschema|protobuf)(?:\.v[12])?\+json")
_WORD: Final = r"[!#$%&'*+\-.^_`|~0-9a-z]+"
_QUOTED: Final = r'"(?:[^"\\]|\\.)*"'
_MEDIA: Final = re.compile(rf"[ \t]*({_WORD}/{_WORD}|\*)[ \t]*(?=;|\Z)")
_PARAMETER: Final = re.compile(rf"[ \t]*;[ \t]*(?:({_WORD})=({_WORD}|{_QUOTED}))?[ \t]*")
#: Older Java clients write `.2`.
_QUALITY: Final = re.compile(r"[01]|[01]?\.[0-9]{1,3}|[01]\.")
_UTF_8: Final = frozenset(("utf-8", "utf8"))
_REMEMBERED: Final = 256
#: Longer headers are not cached: this bounds the cache in bytes, too.
_LONG: Final = 1_024
#: Further ranges are ignored: no real client sends as many.
_MOST_RANGES: Final = 64

T = TypeVar("T")


def is_known(media: str | None) -> bool:
    """True if a route takes such a body, or refuses it with a reason of its own. All such types need a preflight."""
    return media is not None and (media in FORMATS or _SCHEMA_TYPE.fullmatch(media) is not None)


def read_format(accept: bytes | None, offered: tuple[Format, ...], default: Format) -> Format:
    """Choose the format of a read: the best offered one that `Accept` allows; the default if it leaves the choice."""
    if not accept:
        return default
    return _choose_read(accept, offered, default) if len(accept) <= _LONG else _read_format(accept, offered, default)


def plain_media_type(accept: bytes | None) -> bytes:
    """Choose the content type of an answer of v2 without records."""
    if not accept:
        return V2_JSON
    return _choose_plain(accept) if len(accept) <= _LONG else _plain_media_type(accept)


def produce_format(content_type: bytes | None, accepted: tuple[Format, ...]) -> Format:
    """Return the format of a request body. Without a type it is json: the body is empty, which no format allows."""
    if content_type is None:
        content_type = b"application/json"
    if len(content_type) > _LONG:
        return _produce_format(content_type, accepted)
    return _choose_produce(content_type, accepted)


def _read_format(accept: bytes, offered: tuple[Format, ...], default: Format) -> Format:
    ordered = sorted(offered, key=lambda media: media is not default)
    known = {name: media for media in ordered for name, means in FORMATS.items() if means is media}
    choice = choose(accept, known)
    if choice is None:
        raise Refusal(406, f"Accept {quoted(accept)} allows nothing that is offered here: {_names(ordered)}")
    return choice


def _plain_media_type(accept: bytes) -> bytes:
    choice = choose(accept, _PLAIN)
    if choice is None:
        offered = ", ".join(name for name, means in _PLAIN.items() if name.encode() == means)
        raise Refusal(406, f"Accept {quoted(accept)} allows nothing that is offered here: {offered}")
    return choice


def _produce_format(content_type: bytes, accepted: tuple[Format, ...]) -> Format:
    parsed = _parse_element(content_type.decode("latin-1").lower())
    if parsed is None:
        raise Refusal(415, f"Content-Type {quoted(content_type)} cannot be read; accepted are {_names(accepted)}")
    if parsed.parameters.get("charset", "utf-8") not in _UTF_8:
        raise Refusal(415, f"Content-Type {quoted(content_type)} cannot be used: the charset must be utf-8")
    if _SCHEMA_TYPE.fullmatch(parsed.media):
        raise Refusal(
            415, f"there is no schema registry, so {parsed.media} is not accepted, but {_names(accepted)} are"
        )
    media = FORMATS.get(parsed.media)
    if media is None or media not in accepted:
        raise Refusal(415, f"Content-Type {quoted(content_type)} is not accepted here, but {_names(accepted)} are")
    return media


_choose_read: Final = lru_cache(_REMEMBERED)(_read_format)
_choose_plain: Final = lru_cache(_REMEMBERED)(_plain_media_type)
_choose_produce: Final = lru_cache(_REMEMBERED)(_produce_format)


class _Element(NamedTuple):
    """A media type or range in lower case, with its parameters."""

    media: str
    parameters: dict[str, str]


def choose(accept: bytes, known: Mapping[str, T]) -> T | None:
    """Return the value in `known` of the media type that `Accept` prefers; None if it allows none.

    The most specific range that matches a media type gives its quality, also where that is 0. Of equal quality the
    more specific match counts, then the order of `Accept`, then the order of `known`. An invalid range is ignored.
    """
    ranges = _parse_ranges(accept)
    best: tuple[float, int, int] = (0.0, 0, 0)
    choice: T | None = None
    for name, means in known.items():
        matching = [
            (specific, -at, quality) for at, (media, quality) in enumerate(ranges) if (specific := _match(media, name))
        ]
        if matching:
            specific, place, quality = max(matching)
            if quality > 0 and (quality, specific, place) > best:
                best, choice = (quality, specific, place), means
    return choice


def _match(media: str, name: str) -> int:
    """Specificity of a range for a media type: 3 the type itself, 2 `type/*`, 1 everything, 0 no match."""
    if media == name:
        return 3
    if media in ("*/*", "*"):
        return 1
    return 2 if media.endswith("/*") and name.startswith(media[:-1]) else 0


def _parse_ranges(accept: bytes) -> list[tuple[str, float]]:
    ranges: list[tuple[str, float]] = []
    for element in accept.decode("latin-1").lower().split(",", _MOST_RANGES)[:_MOST_RANGES]:
        parsed = _parse_element(element)
        if parsed is None:
            continue
        quality = parsed.parameters.get("q", "1")
        if _QUALITY.fullmatch(quality):
            ranges.append((parsed.media, min(1.0, float(quality))))
    return ranges


def _parse_element(text: str) -> _Element | None:
    found = _MEDIA.match(text)
    if found is None:
        return None
    parameters: dict[str, str] = {}
    at = found.end()
    while at < len(text):
        parameter = _PARAMETER.match(text, at)
        if parameter is None:
            return None
        at = parameter.end()
        if parameter[1]:
            parameters.setdefault(parameter[1], parameter[2].strip('"'))
    return _Element(found[1], parameters)


def _names(formats: Iterable[Format]) -> str:
    names = list(formats)
    return ", ".join([*names, "application/json"] if Format.JSON in names else names)
