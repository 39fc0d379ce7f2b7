"""Location of a root, as users and programs write it, with its store options. Pure.

A location is plain text; its options, which may include secrets, stay attached to it, also when it is sent to Spark
executors, and are not shown.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, Self

__all__ = ["OBJECT_SCHEMES", "Location", "options_of", "parse_options", "show_options"]

#: URL schemes of object stores.
OBJECT_SCHEMES: Final = ("s3", "gs", "az")


class Location(str):
    """A URL or a path, with its store options."""

    __slots__ = ("options",)

    options: dict[str, str]

    def __new__(cls, place: str, options: Mapping[str, str] | None = None) -> Self:
        made = super().__new__(cls, place)
        made.options = dict(options or {})
        return made

    def __reduce__(self) -> tuple[type[Self], tuple[str, dict[str, str]]]:
        return type(self), (str(self), self.options)

    def below(self, path: str) -> Self:
        """A location below this one, with the same options."""
        return type(self)(f"{self}/{path}", self.options)


def parse_options(texts: Iterable[str]) -> dict[str, str]:
    """Parse texts KEY=VALUE; empty ones are skipped. ValueError shows no value, as it may be a secret."""
    found: dict[str, str] = {}
    for text in filter(None, map(str.strip, texts)):
        key, _, value = text.partition("=")
        if not key or not value or key in found:
            raise ValueError("it must be KEY=VALUE, each key once")
        found[key] = value
    return found


def show_options(options: Mapping[str, str]) -> str:
    """Format options for an environment variable, separated by commas; none of them may contain a comma."""
    return ",".join(f"{key}={value}" for key, value in options.items())


def options_of(place: object) -> dict[str, str]:
    """The options of a location; empty for plain text."""
    return dict(place.options) if isinstance(place, Location) else {}
