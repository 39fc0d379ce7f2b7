"""What `lakelog jobs run` is told, when runs are due, and which runs are the same work. Pure.

It knows no job, no clock and no chance: moments and random numbers are arguments.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final

__all__ = ["LEASE_MS", "Misuse", "Order", "is_exclusive", "lease_ms_until", "lease_name", "plan_due", "plan_order"]

#: A run renews its lease three times as often; so late others know that a scheduler died in a run.
LEASE_MS: Final = 300_000
EVERY: Final = "--every"
OUTPUT: Final = "--output"
#: Runs begin up to so much of the interval early or late, so that schedulers that started together part.
JITTER: Final = 0.1
_HELP: Final = frozenset({"-h", "--help"})
#: Options that say where and how something is done, and not what; whether each takes a value.
_ASIDE: Final = {
    "--data": True,
    "--store-option": True,
    "--engine": True,
    "--master": True,
    "--debug": False,
    "--dry-run": False,
}
#: Members of a group share its work among themselves: two of them are what was wanted.
_SHARED: Final = frozenset({"consume"})


class Misuse(ValueError):
    """The words cannot be understood."""


@dataclass(frozen=True, slots=True)
class Order:
    """Jobs to run one after the other, with the same options, once or every so often."""

    names: tuple[str, ...]
    options: tuple[str, ...]
    every: str | None

    @property
    def wants_help(self) -> bool:
        return not _HELP.isdisjoint(self.options)


def plan_order(words: Sequence[str], known: Collection[str]) -> Order:
    """Names of jobs, then options; `--every TIME` and `--output json` are ours wherever they stand, others theirs."""
    rest, every = _take(words, EVERY, "a length of time, as 90s, 10m, 2h or 1d are")
    rest, output = _take(rest, OUTPUT, "json")
    if output not in {None, "json"}:
        raise Misuse(f"{OUTPUT} can be json alone: a run says what it did as JSON")
    count = next((place for place, word in enumerate(rest) if word.startswith("-")), len(rest))
    names, options = tuple(dict.fromkeys(rest[:count])), tuple(rest[count:])
    for name in names:
        if name not in known:
            raise Misuse(f"there is no job {name!r}; the jobs are: {', '.join(known)}")
    if not names and _HELP.isdisjoint(options):
        raise Misuse(f"name a job to run; the jobs are: {', '.join(known)}")
    return Order(names, options, every)


def plan_due(began: float, ended: float, every: float, chance: float) -> float:
    """When the next run begins, after one that began and ended then; `chance` is at least 0 and less than 1.

    What came due while the run still went on is left out: nothing piles up.
    """
    missed = math.floor((ended - began) / every)
    jitter = (2 * chance - 1) * JITTER * every
    return max(began + (missed + 1) * every + jitter, ended)


def lease_ms_until(seconds: float) -> int:
    """How long a lease must hold so that its holder, who sleeps so long, renews it in time."""
    return math.ceil(seconds * 1000) + LEASE_MS


def is_exclusive(job: str) -> bool:
    """Whether two runs of it at once would do the same work twice."""
    return job not in _SHARED


def lease_name(job: str, options: Sequence[str]) -> str:
    """The same for those who would do the same work to a root, however they reach it."""
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
