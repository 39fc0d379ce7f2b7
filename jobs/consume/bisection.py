"""Which record of a batch cannot be worked on: how the batch is cut, and when a record is given up. Pure.

    the batch failed  →  the first half of what is bad, …  →  one record, by itself, as often as it may be tried
    →  given up, if a record has passed since what it was cut from first failed

    Work      do a part, and commit it                                   passed, failed
    Probe     do the first record of a range, and commit nothing         probed
    GiveUp    the record is a dead letter                                given_up
    CannotBlameRecord it cannot be told from a function that fails on everything

Where nothing has passed yet, others are probed: a function that fails on them as well is to blame itself, or what it
writes to is, and no record is given up. A probe that passes earns the record one more try behind it, so that what
failed for a while is not taken for what always fails. Partitions are cut before ranges are, and what is worked on is
always what is next in line, so each part can be committed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import chain, islice
from typing import Final

from jobs.source.positions import Positions, Range, TopicPartition

__all__ = [
    "BisectionState",
    "CannotBlameRecord",
    "GiveUp",
    "Probe",
    "Spans",
    "Step",
    "Work",
    "begin",
    "ends_of",
    "extended",
    "failed",
    "given_up",
    "passed",
    "plan_step",
    "probed",
    "spans_between",
]

Spans = Mapping[TopicPartition, Range]

_PROBES: Final = 20
_FIRST_PAUSE_S: Final = 0.1
_LONGEST_PAUSE_S: Final = 5.0


@dataclass(frozen=True, slots=True)
class BisectionState:
    """`ahead` is what is left of the batch, `bad` the part of it that is known to fail, if any.

    `limit` is how often a record may be tried, `most` how often this one is. `tries` are of a part of one record;
    `witnessed` says whether a record has passed since; `probes` is how many were looked for, of which `refuted` failed.
    """

    ahead: Spans
    bad: Spans
    limit: int
    most: int
    tries: int = 0
    witnessed: bool = False
    probes: int = 0
    refuted: int = 0


@dataclass(frozen=True, slots=True)
class Work:
    spans: Spans
    pause_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Probe:
    of: TopicPartition
    there: Range


@dataclass(frozen=True, slots=True)
class GiveUp:
    of: TopicPartition
    offset: int
    tries: int


@dataclass(frozen=True, slots=True)
class CannotBlameRecord:
    """So many others were tried, and failed; where there was none it is for what comes behind the batch to say."""

    of: TopicPartition
    offset: int
    tries: int
    refuted: int


Step = Work | Probe | GiveUp | CannotBlameRecord


def begin(spans: Spans, limit: int) -> BisectionState:
    """Of a batch that has failed."""
    return failed(BisectionState(spans, {}, limit, limit), spans)


def extended(course: BisectionState, spans: Spans) -> BisectionState:
    """There is more ahead by now, where others may be looked for."""
    return replace(course, ahead=spans, probes=0, refuted=0)


def plan_step(course: BisectionState) -> Step | None:
    """None where nothing is left."""
    if not course.ahead:
        return None
    if not course.bad:
        return Work(course.ahead)
    if _size(course.bad) > 1:
        return Work(_first_half(course.bad))
    if course.tries < course.most:
        return Work(course.bad, _pause_s(course.tries))
    ((of, there),) = course.bad.items()
    if course.witnessed:
        return GiveUp(of, there.start, course.tries)
    probe = next(islice(_probes(course.ahead, of), course.probes, _PROBES), None)
    return probe or CannotBlameRecord(of, there.start, course.tries, course.refuted)


def passed(course: BisectionState, spans: Spans, *, seen: bool) -> BisectionState:
    """A part is committed; not `seen` where there was no record in it, which says nothing."""
    ahead, bad = _without(course.ahead, spans), _without(course.bad, spans)
    if not bad:
        return BisectionState(ahead, {}, course.limit, course.limit)
    return replace(course, ahead=ahead, bad=bad, tries=0, witnessed=course.witnessed or seen)


def failed(course: BisectionState, spans: Spans) -> BisectionState:
    if spans == course.bad:
        return replace(course, tries=course.tries + 1)
    return replace(course, bad=spans, tries=int(_size(spans) == 1))


def probed(course: BisectionState, *, well: bool | None) -> BisectionState:
    """None where there was no record to look at."""
    if well:
        return replace(course, witnessed=True, most=course.tries + 1)
    return replace(course, probes=course.probes + 1, refuted=course.refuted + int(well is False))


def given_up(course: BisectionState) -> BisectionState:
    return BisectionState(_without(course.ahead, course.bad), {}, course.limit, course.limit)


def spans_between(before: Positions, after: Positions) -> Spans:
    return {
        each: Range(before[each], end) for each, end in sorted(after.items()) if each in before and before[each] < end
    }


def ends_of(spans: Spans) -> Positions:
    return {each: there.end for each, there in spans.items()}


def _size(spans: Spans) -> int:
    return sum(there.end - there.start for there in spans.values())


def _first_half(spans: Spans) -> Spans:
    if len(spans) > 1:
        return dict(islice(sorted(spans.items()), len(spans) // 2))
    ((of, there),) = spans.items()
    return {of: Range(there.start, (there.start + there.end) // 2)}


def _without(spans: Spans, done: Spans) -> Spans:
    """What is done stands at the beginning of its partitions."""
    left = {of: Range(done[of].end, there.end) if of in done else there for of, there in spans.items()}
    return {of: there for of, there in left.items() if there.start < there.end}


def _pause_s(tries: int) -> float:
    return min(_LONGEST_PAUSE_S, _FIRST_PAUSE_S * 2 ** (tries - 1)) if tries else 0.0


def _probes(ahead: Spans, bad: TopicPartition) -> Iterator[Probe]:
    """First what is next in other partitions, then behind it; farther each time, as bad ones lie close together."""
    places = [(of, there.start + int(of == bad), there.end) for of, there in ahead.items()]
    places.sort(key=lambda each: (each[0] == bad, each[0]))
    longest = max(end - start for _, start, end in places)
    steps = [2**step - 1 for step in range(longest.bit_length() + 1)]
    near = (step for step in range(longest) if step not in steps)
    for step in chain(steps, near):
        for of, start, end in places:
            if start + step < end:
                yield Probe(of, Range(start + step, end))
