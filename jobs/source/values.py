"""Parsing of option values; invalid texts are refused. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from jobs.source.errors import InvalidOption

_MOST: Final = (1 << 63) - 1
#: An HTTP URL, or a Unix socket with its absolute path as one part of a URL.
_URL: Final = re.compile(r"https?://[^\s,]+|http\+unix://%2F[^\s,/]+/?", re.IGNORECASE)
_DELAY: Final = re.compile(r"(\d{1,12})\s*([a-z]*)")
_UNITS_MS: Final = {
    "": 1, "ms": 1, "s": 1000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000,
}  # fmt: skip


def parse_text(option: str, text: str) -> str:
    if not text.strip():
        raise InvalidOption(option, "it is empty")
    return text.strip()


def parse_url(option: str, text: str) -> str:
    """Parse the URL of a server, without a trailing slash."""
    if _URL.fullmatch(text.strip()) is None:
        raise InvalidOption(
            option,
            f"{text!r} is not the http:// or https:// address of a lakelog server, such as http://127.0.0.1:8082",
        )
    return text.strip().rstrip("/")


def parse_list(option: str, text: str) -> tuple[str, ...]:
    names = tuple(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
    if not names:
        raise InvalidOption(option, "it names no topic")
    return names


def parse_pattern(option: str, text: str) -> re.Pattern[str]:
    try:
        return re.compile(parse_text(option, text))
    except re.error as error:
        raise InvalidOption(option, f"{text!r} is not a regular expression: {error}") from None


def parse_boolean(option: str, text: str) -> bool:
    known = {"true": True, "false": False}
    if text.strip().lower() not in known:
        raise InvalidOption(option, f"{text!r} is neither true nor false")
    return known[text.strip().lower()]


def parse_whole(least: int) -> Callable[[str, str], int]:
    def parse(option: str, text: str) -> int:
        stripped = text.strip()
        if not (stripped.isascii() and stripped.isdigit()) or not least <= int(stripped) <= _MOST:
            raise InvalidOption(option, f"{text!r} is not a whole number of {least} or more")
        return int(stripped)

    return parse


parse_time: Final = parse_whole(0)


def parse_delay(option: str, text: str) -> int:
    """Parse a duration to milliseconds, in Spark's form: a number and ms, s, m, min, h or d."""
    found = _DELAY.fullmatch(text.strip().lower())
    if found is None or found[2] not in _UNITS_MS:
        raise InvalidOption(option, f"{text!r} is not a time, such as 15m, 30s or 500ms")
    return int(found[1]) * _UNITS_MS[found[2]]


def either(*words: str) -> Callable[[str, str], str]:
    def parse(option: str, text: str) -> str:
        if text.strip().lower() not in words:
            raise InvalidOption(option, f"{text!r} is none of {', '.join(words)}")
        return text.strip().lower()

    return parse
