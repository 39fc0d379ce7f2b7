"""Schedule of `lakelog jobs run`: its arguments, the times of runs, and the names of leases. Pure.

It knows no job, no clock and no randomness: times and random numbers are arguments.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Final

from lakelog.cli.kit.word_order import Options, spell, spell_option

__all__ = ["LEASE_MS", "Misuse", "Order", "is_exclusive", "lease_ms_until", "lease_name", "plan_due", "plan_order"]

#: A run renews its lease three times as often; so others notice a dead scheduler after this time.
LEASE_MS: Final = 300_000
EVERY: Final = "--every"
OUTPUT: Final = "--output"
#: Runs begin up to this part of the interval early or late, so that schedulers started together drift apart.
JITTER: Final = 0.1
_HELP: Final = frozenset({"-h", "--help"})
#: Options about the place or the way of the work, not the work itself; True for those that take a value.
_ASIDE: Final = {
    "--data": True,
    "--store-option": True,
    "--engine": True,
    "--master": True,
    "--debug": False,
    "--dry-run": False,
}
#: Jobs of which several runs share the work as members of a group: they need no lease.
_SHARED: Final = frozenset({"consume"})


class Misuse(ValueError):
    """Wrong arguments."""


@dataclass(frozen=True, slots=True)
class Order:
    """Jobs to run one after the other, with the same options, once or at an interval."""

    names: tuple[str, ...]
    options: tuple[str, ...]
    every: str | None

    @property
    def wants_help(self) -> bool:
        return not _HELP.isdisjoint(self.options)


def plan_order(
    words: Sequence[str], known: Collection[str], options: Callable[[Sequence[str]], Options] = lambda _: {}
) -> Order:
    """Read names of jobs and options, in any order; all options but `--every TIME` and `--output json` are the jobs'.

    `options` are those of jobs. An unknown option stays in its place, with the word behind it.
    """
    rest, every = _take(words, EVERY, "a length of time, as 90s, 10m, 2h or 1d are")
    rest, output = _take(rest, OUTPUT, "json")
    if output not in {None, "json"}:
        raise Misuse(f"{OUTPUT} can be json alone: a run says what it did as JSON")
    count = next((place for place, word in enumerate(rest) if word.startswith("-")), len(rest))
    names, theirs = [spell(name, known) for name in rest[:count]], rest[count:]
    for name in names:
        if name not in known:
            raise Misuse(f"there is no job {name!r}; the jobs are: {', '.join(known)}")
    if any(spell(word, known) in known for word in theirs):
        later, theirs = _take_names(theirs, known, options(names or tuple(known)))
        names += later
    if not names and _HELP.isdisjoint(theirs):
        raise Misuse(f"name a job to run; the jobs are: {', '.join(known)}")
    return Order(tuple(dict.fromkeys(names)), tuple(theirs), every)


def _take_names(words: Sequence[str], known: Collection[str], options: Options) -> tuple[list[str], list[str]]:
    """Separate names of jobs from the other words."""
    names: list[str] = []
    others: list[str] = []
    is_value = False
    for word in words:
        if not is_value and spell(word, known) in known:
            names.append(spell(word, known))
            continue
        others.append(word)
        is_value = (
            not is_value
            and word.startswith("-")
            and options.get(spell_option(word, options), "=" not in word) is not False
        )
    return names, others


def plan_due(began: float, ended: float, every: float, chance: float) -> float:
    """Start of the next run, from the last run's begin and end; `chance` is at least 0 and less than 1.

    Runs that came due during the last one are skipped, so that none pile up.
    """
    missed = math.floor((ended - began) / every)
    jitter = (2 * chance - 1) * JITTER * every
    return max(began + (missed + 1) * every + jitter, ended)


def lease_ms_until(seconds: float) -> int:
    """Duration of a lease whose holder sleeps this long before it renews it."""
    return math.ceil(seconds * 1000) + LEASE_MS


def is_exclusive(job: str) -> bool:
    """True if two concurrent runs would do the same work twice."""
    return job not in _SHARED


def lease_name(job: str, options: Sequence[str]) -> str:
    """Name of the lease: equal for runs that do the same work on a root, however they reach it."""
    what: list[str] = []
    skip = False
    for word in options:
        option, has_value, _ = word.partition("=")
        if not skip and option not in _ASIDE:
            what.append(word)
        skip = not skip and not has_value and _ASIDE.get(option, False)
    digest = hashlib.sha256("\0".join(what).encode()).hexdigest()
    return f"{job}-{digest[:12]}"


def _take(words: Sequence[str], option: str, needs: str) -> tuple[list[str], str | None]:
    rest: list[str] = []
    found: list[str] = []
    following = iter(words)
    for word in following:
        if word == option:
            value = next(following, None)
            if value is None:
                raise Misuse(f"{option} needs {needs}")
            found.append(value)
        elif word.startswith(f"{option}="):
            found.append(word.partition("=")[2])
        else:
            rest.append(word)
    if len(found) > 1:
        raise Misuse(f"{option} is given {len(found)} times")
    return rest, found[0] if found else None
