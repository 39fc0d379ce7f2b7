"""The words that a shell completes at each place of a command line, read from the parsers. Pure."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple, cast

from lakelog.cli.kit.parser import Parser, Path

__all__ = ["Option", "Place", "read_places"]

#: Metavars of values that are local paths.
_PATHS: Final = frozenset({"DIR", "FILE", "PLACE", "ROOT"})
#: Metavars of names that a server knows, with the kind of name.
_NAMES: Final = {"TOPIC": "topics", "GROUP": "groups"}
#: Commands whose name is new to the server.
_NEW: Final = frozenset({("topics", "create")})


class Option(NamedTuple):
    """An option. `takes`: a value follows; `words`: its values, if there are few; `ask`: the kind of name it takes."""

    names: tuple[str, ...]
    summary: str
    takes: bool
    words: tuple[str, ...] = ()
    paths: bool = False
    ask: str = ""


class Place(NamedTuple):
    """A place on a command line, and what may follow there.

    `words` are commands with their summaries; `ask` is the kind of name to fetch from a server, if any.
    """

    path: Path
    words: Mapping[str, str]
    options: tuple[Option, ...]
    paths: bool
    ask: str = ""


def read_places(whole: Parser, parts: Mapping[Path, Parser]) -> list[Place]:
    """Places of the program itself, and of each command and group."""
    return [_read_place(path, parser) for path, parser in {(): whole, **parts}.items()]


def _read_place(path: Path, parser: Parser) -> Place:
    actions = cast("Sequence[argparse.Action]", parser._actions)  # noqa: SLF001  # pyright: ignore[reportPrivateUsage] - it has no public name
    words: dict[str, str] = {}
    paths, ask = False, ""
    for action in actions:
        if action.option_strings:
            continue
        paths = paths or action.metavar in _PATHS
        ask = ask or _names(action, path)
        told = {
            each.dest: str(each.help or "")
            for each in cast("Sequence[argparse.Action]", getattr(action, "_choices_actions", ()))
        }
        words |= {str(word): told.get(str(word), "") for word in cast("Sequence[Any]", action.choices or ())}
    return Place(
        path, words, tuple(_read_option(action, path) for action in actions if action.option_strings), paths, ask
    )


def _read_option(action: argparse.Action, path: Path) -> Option:
    summary = " ".join((action.help or "").replace("%%", "%").split())
    words = tuple(str(each) for each in cast("Sequence[Any]", action.choices or ()))
    takes = action.nargs not in (0, "?")
    return Option(tuple(action.option_strings), summary, takes, words, action.metavar in _PATHS, _names(action, path))


def _names(action: argparse.Action, path: Path) -> str:
    return "" if path in _NEW else _NAMES.get(str(action.metavar), "")
