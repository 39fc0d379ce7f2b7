"""How people and programs name a place, and what its store has to be told besides. Pure.

The name is text like any other; its options, secrets among them, go where it goes, to executors too, and are not shown.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, Self

__all__ = ["OBJECT_SCHEMES", "Location", "options_of", "parse_options", "show_options"]

#: What a place on an object store begins with.
OBJECT_SCHEMES: Final = ("s3", "gs", "az")


class Location(str):
    """A URL or a path that knows its options."""

    __slots__ = ("options",)

    options: dict[str, str]

    def __new__(cls, place: str, options: Mapping[str, str] | None = None) -> Self:
        made = super().__new__(cls, place)
        made.options = dict(options or {})
        return made

    def __reduce__(self) -> tuple[type[Self], tuple[str, dict[str, str]]]:
        return type(self), (str(self), self.options)

    def below(self, path: str) -> Self:
        """What lies in it."""
        return type(self)(f"{self}/{path}", self.options)


def parse_options(texts: Iterable[str]) -> dict[str, str]:
    """Each as KEY=VALUE; empty ones count for nothing. ValueError tells no value, as it may be a secret."""
    found: dict[str, str] = {}
    for text in filter(None, map(str.strip, texts)):
        key, _, value = text.partition("=")
        if not key or not value or key in found:
            raise ValueError("it must be KEY=VALUE, each key once")
        found[key] = value
    return found


def show_options(options: Mapping[str, str]) -> str:
    """As `parse_options` takes them from a variable, with commas between; none of them may have one inside."""
    return ",".join(f"{key}={value}" for key, value in options.items())


def options_of(place: object) -> dict[str, str]:
    """None where it is text alone."""
    return dict(place.options) if isinstance(place, Location) else {}
