"""The order and the spelling of words: options may stand anywhere, with hyphens or with underscores. Pure.

argparse matches all positional words at once, at the first that it meets, so `produce TOPIC --server URL FILE` would
have a word too many. Words are reordered before it reads them: options with their values, `--`, and the rest. If an
option is unknown nothing is moved, as it may or may not take a value.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Final

__all__ = ["Options", "arrange", "fits", "move_action", "options_of", "spell", "spell_option"]

#: Options by name: True if a value follows, None if one may.
Options = Mapping[str, bool | None]
_REST: Final = "--"


def spell(word: str, known: Collection[str]) -> str:
    """Find the known word that differs from this one only in hyphens and underscores; else return it unchanged."""
    if word in known:
        return word
    return next((each for each in known if each.replace("_", "-") == word.replace("_", "-")), word)


def spell_option(word: str, known: Collection[str]) -> str:
    """Spell an option's name; its value may follow a = in the same word."""
    name, sign, value = word.partition("=")
    return f"{spell(name, known)}{sign}{value}" if name.startswith("--") and name != _REST else word


def options_of(parser: argparse.ArgumentParser) -> Options:
    """The options of a parser."""
    actions = parser._option_string_actions  # noqa: SLF001  # pyright: ignore[reportPrivateUsage] - it has no public name
    return {name: None if action.nargs == "?" else action.nargs != 0 for name, action in actions.items()}


def arrange(words: Sequence[str], known: Options, is_option: Callable[[str], bool]) -> list[str]:
    """Arrange words for a parser without commands of its own: options first, then the others in their order.

    To argparse a minus alone, a negative number and a word with a space are no options: `is_option` decides.
    """
    options: list[str] = []
    others: list[str] = []
    left = list(words)
    while left:
        word = left.pop(0)
        if word == _REST:
            others += left
            break
        word = spell_option(word, known)
        if not is_option(word):
            others.append(word)
            continue
        name = word if word in known else word.partition("=")[0]
        if name not in known:
            return [spell_option(each, known) for each in words]
        options.append(word)
        takes = name == word and known[name] is not False
        if takes and left and left[0] != _REST and not is_option(spell_option(left[0], known)):
            options.append(left.pop(0))
    return [*options, _REST, *others] if others else options


def move_action(words: Sequence[str], actions: Sequence[str], own: Collection[str]) -> list[str]:
    """Move the action in front of the words that belong to it; the last of the actions is the one that takes any.

    `own` are options that stay in their place.
    """
    place = next((words.index(each) for each in reversed(actions) if each in words), 0)
    before = words[:place]
    kept, moved = [each for each in before if each in own], [each for each in before if each not in own]
    return [*kept, *words[place : place + 1], *moved, *words[place + 1 :]]


def fits(words: Iterable[str], options: Options) -> bool:
    """True if the words are only known options with their values."""
    left = list(words)
    while left:
        name, sign, _ = spell_option(left.pop(0), options).partition("=")
        if name not in options:
            return False
        if not sign and options[name] is not False:
            if left and (options[name] or not left[0].startswith("-")):
                left.pop(0)
            elif options[name]:
                return False
    return True
