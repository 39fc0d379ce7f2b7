"""Bisection: finds the record on which a batch fails, and decides when it is given up. Pure.

    the batch failed  →  the first half of the bad part, …  →  one record, alone, up to the limit of tries
    →  given up, if a record has passed since the part it was cut from first failed

    Work      process a part, and commit it                              passed, failed
    Probe     process the first record of a range, and commit nothing    probed
    GiveUp    the record is a dead letter                                given_up
    CannotBlameRecord the function may fail on every record

If nothing has passed yet, other records are probed: if they fail as well, the function or its output is to blame, and
no record is given up. After a probe that passes, the record gets one more try, so that a temporary failure is not taken
for a permanent one. Partitions are split before ranges, and a part always starts at the next offsets in line, so that
each part can be committed.
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
    """State of a bisection. `ahead`: the rest of the batch; `bad`: the part of it known to fail, if any.

    `limit`: maximum tries of a record; `most`: that of the current one. `tries`: of a bad part of one record;
    `witnessed`: a record has passed since the first failure; `probes`: probes made, of which `refuted` failed.
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
    """No record can be blamed: `refuted` probes failed; if there were none, records after the batch decide."""

    of: TopicPartition
    offset: int
    tries: int
    refuted: int


Step = Work | Probe | GiveUp | CannotBlameRecord


def begin(spans: Spans, limit: int) -> BisectionState:
    """Begin the bisection of a failed batch."""
    return failed(BisectionState(spans, {}, limit, limit), spans)


def extended(course: BisectionState, spans: Spans) -> BisectionState:
    """Continue with more records ahead, which can be probed."""
    return replace(course, ahead=spans, probes=0, refuted=0)


def plan_step(course: BisectionState) -> Step | None:
    """Return the next step; None if nothing is left."""
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
    """Note that a part is committed; not `seen` if it had no record, so that it proves nothing."""
    ahead, bad = _without(course.ahead, spans), _without(course.bad, spans)
    if not bad:
        return BisectionState(ahead, {}, course.limit, course.limit)
    return replace(course, ahead=ahead, bad=bad, tries=0, witnessed=course.witnessed or seen)


def failed(course: BisectionState, spans: Spans) -> BisectionState:
    if spans == course.bad:
        return replace(course, tries=course.tries + 1)
    return replace(course, bad=spans, tries=int(_size(spans) == 1))


def probed(course: BisectionState, *, well: bool | None) -> BisectionState:
    """Note the outcome of a probe; None if there was no record to probe."""
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
    """Remove processed ranges, which are at the start of their partitions."""
    left = {of: Range(done[of].end, there.end) if of in done else there for of, there in spans.items()}
    return {of: there for of, there in left.items() if there.start < there.end}


def _pause_s(tries: int) -> float:
    return min(_LONGEST_PAUSE_S, _FIRST_PAUSE_S * 2 ** (tries - 1)) if tries else 0.0


def _probes(ahead: Spans, bad: TopicPartition) -> Iterator[Probe]:
    """Records to probe: the next ones of other partitions first, then ever farther, as bad records lie together."""
    places = [(of, there.start + int(of == bad), there.end) for of, there in ahead.items()]
    places.sort(key=lambda each: (each[0] == bad, each[0]))
    longest = max(end - start for _, start, end in places)
    steps = [2**step - 1 for step in range(longest.bit_length() + 1)]
    near = (step for step in range(longest) if step not in steps)
    for step in chain(steps, near):
        for of, start, end in places:
            if start + step < end:
                yield Probe(of, Range(start + step, end))
