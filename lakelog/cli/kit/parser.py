"""The words of the command line: the commands, their groups, and the parser of them all.

A command's module has `configure(parser)`, which adds its arguments, and `run(args)`, which returns the exit code. Only
the module of the called command is imported, so that help stays quick.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from importlib import import_module
from itertools import pairwise
from typing import Any, Final, NamedTuple, NoReturn, Protocol, cast

from lakelog.cli.kit.exit_codes import CALLED_WRONGLY, Failure, show_failure
from lakelog.cli.kit.word_order import Options, arrange, fits, move_action, options_of, spell

__all__ = [
    "Command",
    "CommandModule",
    "Commands",
    "Group",
    "Parser",
    "build_parser",
    "commands_of",
    "find_command",
    "find_misplaced",
    "settle",
    "wants_json",
]

#: Options of the program itself, which may precede the command.
_OWN: Final = frozenset({"-h", "--help", "--version", "--debug"})
_DEBUG_HELP: Final = "show the stack trace of an error"


class CommandModule(Protocol):
    """Interface of a command's module."""

    def configure(self, parser: argparse.ArgumentParser) -> None: ...

    # a module with options beyond those of its parser has `options()`, too, which returns `Options`

    def run(self, args: argparse.Namespace) -> int: ...


class Command(NamedTuple):
    """A command: its module, its line in the help, and the extra of the install that it needs, if any."""

    module: str
    summary: str
    extra: str | None

    def load(self) -> CommandModule:
        return cast("CommandModule", import_module(self.module))


class Group(NamedTuple):
    """Commands below one name, as `lakelog topics list`."""

    summary: str
    commands: Mapping[str, Command]


Commands = Mapping[str, Command | Group]
#: The words that lead to a command.
Path = tuple[str, ...]


class Parser(argparse.ArgumentParser):
    """Parser that reports wrong calls in one sentence, or in one object of JSON."""

    def __init__(self, *args: Any, as_json: bool = False, **options: Any) -> None:
        super().__init__(*args, allow_abbrev=False, **options)
        self._as_json = as_json

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride] - it is overloaded
        """Parse; unknown words are reported by the parser of the command, not by that of the program."""
        words = self._in_order(sys.argv[1:] if args is None else list(args))
        found, left = super().parse_known_args(words, namespace)
        left = [word for word in left if word != "--"]
        if left:
            near = [_nearest(word.partition("=")[0], self._option_string_actions) for word in left if word[:2] == "--"]
            self.error(f"unrecognized arguments: {' '.join(left)}{''.join(near)}")
        return found, left

    def _in_order(self, words: list[str]) -> list[str]:
        forms = {action.nargs for action in self._actions}
        if argparse.PARSER in forms:
            return words
        if argparse.REMAINDER not in forms:
            return arrange(words, options_of(self), lambda word: self._parse_optional(word) is not None)
        (actions,) = (action.choices or () for action in self._actions if action.dest == "action")
        return move_action(words, tuple(map(str, actions)), self._option_string_actions)

    def _get_value(self, action: argparse.Action, arg_string: str) -> Any:
        """Match a value with the choices, but for spelling. Words behind a command are matched by its own parser."""
        found = super()._get_value(action, arg_string)
        if isinstance(found, str) and action.choices is not None and action.nargs != argparse.PARSER:
            return spell(found, [str(each) for each in action.choices])
        return found

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        """Check a value; the error suggests the nearest choice, if one is near."""
        try:
            super()._check_value(action, value)
        except argparse.ArgumentError as error:
            if near := _nearest(str(value), map(str, action.choices or ())):
                raise argparse.ArgumentError(action, f"there is no {str(value)!r}{near}") from None
            raise error from None

    def error(self, message: str) -> NoReturn:
        failure = Failure(message, f"see {self.prog} --help", exit_code=CALLED_WRONGLY)
        self.exit(CALLED_WRONGLY, f"{show_failure(self.prog, failure, as_json=self._as_json)}\n")


def commands_of(commands: Commands) -> Iterator[tuple[Path, Command]]:
    """Every command with the words that lead to it."""
    for name, each in commands.items():
        if isinstance(each, Group):
            yield from (((name, below), command) for below, command in each.commands.items())
        else:
            yield (name,), each


def find_command(words: Sequence[str], commands: Commands) -> tuple[Path, Command | None]:
    """Find the command: the words that lead to it, and the command if it exists. Options before it take no value."""
    names = iter(word for word in words if not word.startswith("-"))
    first = next(names, "")
    found = commands.get(first)
    if not isinstance(found, Group):
        return (first,) if first else (), found
    second = next(names, "")
    return (first, second) if second else (first,), found.commands.get(second)


def settle(words: Sequence[str], commands: Commands, options: Callable[[Path], Options]) -> list[str]:
    """Order the words: the command in its right spelling, the options from before or amid its words, then the rest.

    `options` returns those of a command. If no command fits the options before it, nothing is moved.
    """
    end = words.index("--") if "--" in words else len(words)
    for path, places in _paths(words[:end], commands):
        before = [word for at, word in enumerate(words[: places[-1]]) if at not in places]
        own, others = [each for each in before if each in _OWN], [each for each in before if each not in _OWN]
        if not others or fits(others, options(path)):
            return [*own, *path, *others, *words[places[-1] + 1 :]]
    return list(words)


def _paths(words: Sequence[str], commands: Commands) -> Iterator[tuple[Path, tuple[int, ...]]]:
    """Commands that the words may mean, with the positions of these words."""
    for place, word in enumerate(words):
        name = spell(word, commands)
        found = commands.get(name)
        if isinstance(found, Command):
            yield (name,), (place,)
        elif found is not None:
            for below, verb in enumerate(words[place + 1 :], place + 1):
                if (spelled := spell(verb, found.commands)) in found.commands:
                    yield (name, spelled), (place, below)


def find_misplaced(words: Sequence[str], commands: Commands) -> str | None:
    """Find an option before a command that does not fit it, if there is one."""
    below: Commands = commands
    for word in (each for each in words if each not in _OWN):
        if word.startswith("-"):
            return word.partition("=")[0] if any(later in below for later in words) else None
        found = below.get(word)
        if not isinstance(found, Group):
            return None
        below = found.commands
    return None


def wants_json(words: Sequence[str]) -> bool:
    """True if errors are to be JSON, too; decided before the words are parsed."""
    return "--output=json" in words or ("--output", "json") in pairwise(words)


def build_parser(
    commands: Commands, version: str, configure: Callable[[Path, Parser], None], *, as_json: bool = False
) -> tuple[Parser, Mapping[Path, Parser]]:
    """Build the parser, and those of each command and group; `configure` is called for each command."""
    parser = Parser(prog="lakelog", description="A streaming log on the lakehouse.", as_json=as_json)
    parser.add_argument("--version", action="version", version=f"lakelog {version}")
    parser.add_argument("--debug", action="store_true", help=_DEBUG_HELP)
    parts: dict[Path, Parser] = {}
    choices = parser.add_subparsers(title="commands", metavar="COMMAND")
    for name, each in commands.items():
        part = parts[name,] = _part(choices, name, each.summary, as_json=as_json)
        if isinstance(each, Command):
            configure((name,), part)
            continue
        below = part.add_subparsers(title="commands", metavar="COMMAND")
        for verb, command in each.commands.items():
            parts[name, verb] = _part(below, verb, command.summary, as_json=as_json)
            configure((name, verb), parts[name, verb])
    return parser, parts


def _part(choices: argparse._SubParsersAction[Parser], name: str, summary: str, *, as_json: bool) -> Parser:  # pyright: ignore[reportPrivateUsage] - it has no public name
    described = f"{summary[:1].upper()}{summary[1:]}."
    part = choices.add_parser(name, help=summary, description=described, as_json=as_json)
    part.add_argument("--debug", action="store_true", default=argparse.SUPPRESS, help=_DEBUG_HELP)
    return part


def _nearest(word: str, words: Iterable[str]) -> str:
    import difflib

    near = difflib.get_close_matches(word, list(words), n=1)
    return f"; the nearest is {near[0]}" if near else ""
