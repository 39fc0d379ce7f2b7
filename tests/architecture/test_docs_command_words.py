"""Every command of the documents means the same with its words in every order, and with hyphens or underscores."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
from itertools import islice, permutations
from math import factorial
from typing import Any

import pytest

from jobs.foundation.registry import JOBS
from lakelog.cli import main as cli
from lakelog.cli.commands import COMMANDS
from lakelog.cli.jobs import command as jobs_command
from lakelog.cli.jobs.schedule import plan_order
from lakelog.cli.kit.parser import Group, commands_of, find_command, settle
from tests.architecture.project_files import ROOT

PAGES = [*sorted((ROOT / "docs").rglob("*.md")), ROOT / "README.md", *sorted((ROOT / "conf").rglob("*.md"))]
BLOCK = re.compile(r"^```sh\n(.*?)^```$", re.MULTILINE | re.DOTALL)
TYPED = re.compile(r"^(?:[A-Z_]+=\S+ +)*lakelog +(\S.*)$", re.MULTILINE)
#: What a shell makes of a line ends a command.
ENDS = re.compile(r"^(?:[|&;]+|[12]?>+.*|<.*)$")
#: So many orders of a command are tried at the most, spread over all there are.
MOST = 120


def commands_in(text: str) -> Iterator[tuple[str, ...]]:
    for block in BLOCK.findall(text):
        for line in TYPED.findall(block.replace("\\\n", " ")):
            words: list[str] = []
            for word in shlex.split(line, comments=True):
                if ENDS.match(word):
                    break
                words.append(word)
            yield tuple(words)


COMMANDS_TYPED = sorted({words for page in PAGES for words in commands_in(page.read_text(encoding="utf-8"))})


def meaning(words: Sequence[str]) -> list[Any]:
    """All that a command would be called with."""
    settled = settle(words, COMMANDS, lambda path: cli.options_below(path, COMMANDS))
    module, args = cli.read(settled, COMMANDS)
    assert module is not None
    if module is not jobs_command or args.action == "list":
        return [find_command(settled, COMMANDS)[0], vars(args)]
    order = plan_order(args.words, JOBS, jobs_command.options)
    parsed = [vars(jobs_command.parser_of(name).parse_args(order.options)) for name in order.names]
    return [order.names, order.every, parsed]


def units(words: Sequence[str]) -> tuple[list[list[str]], list[str]]:
    """Options with their values, and all other words; the path of the command is among those."""
    path, _ = find_command(words, COMMANDS)
    options = cli.options_below(path, COMMANDS)
    found: list[list[str]] = []
    others: list[str] = []
    left = list(words)
    while left:
        word = left.pop(0)
        if len(word) == 1 or not word.startswith("-"):
            others.append(word)
            continue
        takes = "=" not in word and options[word] is not False and left and not left[0].startswith("--")
        found.append([word, left.pop(0)] if takes else [word])
    return found, others


def orders(words: Sequence[str]) -> Iterator[list[str]]:
    """Options in every order and at every place; other words, and options that are repeated, keep theirs."""
    found, others = units(words)
    marks = [0] * len(others) + list(range(1, len(found) + 1))
    number = factorial(len(marks))
    for chosen in islice(permutations(range(len(marks))), 0, None, max(1, number // MOST)):
        rest, placed = iter(others), [marks[at] for at in chosen]
        names = [found[mark - 1][0].partition("=")[0] for mark in placed if mark]
        if names and max(map(names.count, names)) > 1:
            placed = sorted(placed)
        yield [word for mark in placed for word in (found[mark - 1] if mark else [next(rest)])]


def underscored(words: Sequence[str]) -> list[str]:
    path, _ = find_command(words, COMMANDS)
    return [each.replace("-", "_") for each in path] + [_underscored(word) for word in words[len(path) :]]


def _underscored(word: str) -> str:
    name, sign, value = word[2:].partition("=")
    return f"--{name.replace('-', '_')}{sign}{value}" if word.startswith("--") else word


def test_there_are_commands_of_every_kind_in_the_documents():
    named = {words[0] for words in COMMANDS_TYPED}
    assert len(COMMANDS_TYPED) > 50
    assert {"topics", "produce", "consume", "groups", "dlq", "sql", "jobs", "serve", "check"} <= named


@pytest.mark.parametrize("words", COMMANDS_TYPED, ids=" ".join)
def test_a_command_means_the_same_with_its_words_in_every_order(words: tuple[str, ...]):
    meant = meaning(words)
    for order in orders(words):
        assert meaning(order) == meant, " ".join(order)


@pytest.mark.parametrize("words", COMMANDS_TYPED, ids=" ".join)
def test_a_command_means_the_same_with_underscores(words: tuple[str, ...]):
    assert meaning(underscored(words)) == meaning(words)


def test_every_command_and_option_is_known_with_underscores():
    for path, _ in commands_of(COMMANDS):
        typed = tuple(word.replace("-", "_") for word in path)
        settled = settle(typed, COMMANDS, lambda _: {})
        assert tuple(settled) == path
    assert isinstance(COMMANDS["topics"], Group)
