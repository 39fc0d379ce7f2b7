"""What a query reads, decided: from which position to which, in how many tasks, from which files. Pure.

    start ──────── in the files of the table ──────── table end ──── from the server ──── end
          |  task  |  task  |            task                    |          task        |

A position below the log start, or beyond the end, means that records were lost to the query: each is told, and the
position that is read from instead is the log start.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import ceil, floor
from re import Pattern
from typing import NamedTuple

from jobs.source.errors import InvalidOption, UnknownTopics
from jobs.source.options import Chosen
from jobs.source.positions import (
    EARLIEST,
    LATEST,
    AtOffsets,
    AtTime,
    Everywhere,
    Limit,
    Positions,
    Range,
    Times,
    TopicPartition,
)


class TopicView(NamedTuple):
    """`id` is not that of another topic of the name; None where nobody says it."""

    partitions: int
    timestamp_type: int
    id: str | None


class Span(NamedTuple):
    """Offsets of a partition that are read: from `start` to below `end`."""

    of: TopicPartition
    start: int
    end: int

    @property
    def size(self) -> int:
        return self.end - self.start


@dataclass(frozen=True, slots=True)
class PlannedFile:
    """A data file by its place in the root, and the offset behind its last record.

    A dense one has every offset in between: who wants nothing else need not read it.
    """

    path: str
    base_offset: int
    next_offset: int
    dense: bool


@dataclass(frozen=True, slots=True)
class Tabled:
    """What the table of a partition holds, as of the version that was planned with."""

    topic_id: str
    end: int
    files: tuple[PlannedFile, ...] = ()


@dataclass(frozen=True, slots=True)
class Slice:
    """What one task reads: of the files what they hold, the rest from the server."""

    span: Span
    timestamp_type: int
    tabled: Tabled | None


def choose_topics(chosen: Chosen, topics: Collection[str]) -> list[str]:
    """Those to read among those that are there. `subscribe` names topics, a pattern finds them."""
    if isinstance(chosen, Pattern):
        return sorted(topic for topic in topics if chosen.fullmatch(topic))
    return sorted({each if isinstance(each, str) else each.topic for each in chosen})


def choose_partitions(chosen: Chosen, counts: Mapping[str, int], place: str) -> list[TopicPartition]:
    """The partitions to read, of topics with so many."""
    if isinstance(chosen, frozenset):
        there = sorted(each for each in chosen if each.topic in counts)
        beyond = [each for each in there if each.partition >= counts[each.topic]]
        if beyond:
            each = beyond[0]
            raise InvalidOption(
                "assign", f"{each.topic} in {place} has no partition {each.partition}: it has {counts[each.topic]}"
            )
        return there
    return [TopicPartition(topic, number) for topic in sorted(counts) for number in range(counts[topic])]


def check_there(wanted: Iterable[str], topics: Collection[str], place: str) -> None:
    missing = [topic for topic in wanted if topic not in topics]
    if missing:
        raise UnknownTopics(missing, place)


def check_named(limit: Limit, partitions: Collection[TopicPartition], option: str) -> None:
    """Offsets or times that are given one by one are given for each partition, and for no other."""
    if isinstance(limit, AtOffsets):
        named: Collection[TopicPartition] = limit.offsets
    elif isinstance(limit, AtTime) and isinstance(limit.time_ms, dict):
        named = limit.time_ms
    else:
        return
    missing, more = sorted(set(partitions) - set(named)), sorted(set(named) - set(partitions))
    if missing or more:
        lacks = [f"{each} is missing" for each in missing] + [f"{each} is not read" for each in more]
        raise InvalidOption(
            option, f"every partition that is read must be in it (-2 is earliest, -1 latest): {', '.join(lacks)}"
        )


def is_said(limit: Limit, partition: TopicPartition) -> bool:
    """Whether a limit means something in a partition."""
    if isinstance(limit, AtOffsets):
        return partition in limit.offsets
    return not isinstance(limit, AtTime) or limit.of(partition) is not None


def times_wanted(limit: Limit, partitions: Iterable[TopicPartition]) -> Times:
    """The times for which offsets must be looked up."""
    if not isinstance(limit, AtTime):
        return {}
    return {each: time for each in partitions if (time := limit.of(each)) is not None}


def is_settled(limit: Limit, strategy: str) -> bool:
    """Whether it means the same offsets whenever it is asked again, but for what retention takes."""
    if isinstance(limit, AtTime):
        return strategy == "error"
    if isinstance(limit, AtOffsets):
        return LATEST not in limit.offsets.values()
    return limit == Everywhere(EARLIEST)


def resolve(
    limit: Limit, ranges: Mapping[TopicPartition, Range], at_times: Mapping[TopicPartition, int | None]
) -> Positions:
    """The position that a limit means in each partition; of a time that no record has reached, the end."""
    found: Positions = {}
    for each, there in ranges.items():
        if isinstance(limit, AtTime):
            at = at_times[each]
            found[each] = there.end if at is None else at
            continue
        wanted = limit.mark if isinstance(limit, Everywhere) else limit.offsets[each]
        found[each] = {EARLIEST: there.start, LATEST: there.end}.get(wanted, wanted)
    return found


def check_times_found(limit: Limit, at_times: Mapping[TopicPartition, int | None], strategy: str) -> None:
    """With the strategy `error` a time that no record has reached is one."""
    late = sorted(each for each, found in at_times.items() if found is None)
    if late and strategy == "error" and isinstance(limit, AtTime):
        raise InvalidOption(
            "startingTimestamp",
            f"no record of {late[0]} is at or after {limit.of(late[0])}; with "
            "startingOffsetsByTimestampStrategy=latest the query begins at the end there",
        )


def plan_spans(
    starts: Positions, ends: Positions, ranges: Mapping[TopicPartition, Range]
) -> tuple[list[Span], list[str]]:
    """What is read to get from one set of positions to another, and what is lost on the way, in words.

    A partition that has no start is new, and begins at its log start.
    """
    spans: list[Span] = []
    losses = [_gone(each) for each in sorted(starts.keys() - (ranges.keys() & ends.keys()))]
    for each in sorted(ends):
        there = ranges.get(each)
        if there is None:
            losses += [_gone(each)] if each not in starts else []
            continue
        start, lost = begin(each, starts.get(each, there.start), there)
        end = ends[each]
        if end > there.end and not lost:
            lost = f"{each} was to be read up to {end} and ends at {there.end}"
        if lost:
            losses.append(lost)
        end = min(end, there.end)
        if start < end:
            spans.append(Span(each, start, end))
    return spans, losses


def _gone(each: TopicPartition) -> str:
    return f"{each} is gone, or is not among what is to be read any more"


def begin(each: TopicPartition, position: int, there: Range) -> tuple[int, str]:
    """Where reading on from a position begins, and what is lost by that, in words."""
    if position < there.start:
        return there.start, f"{each} was read up to {position} and begins at {there.start}"
    if position > there.end:
        return there.start, (
            f"{each} was read up to {position} and ends at {there.end}: it is another topic of "
            "that name, or the tables are behind a server that was read before"
        )
    return position, ""


def plan_ends(starts: Positions, ranges: Mapping[TopicPartition, Range], most: int | None) -> Positions:
    """Where a batch of a stream ends: at most so many offsets further, shared out by how much each partition has.

    A partition that is gone is left out: that is told when the batch is planned.
    """
    begins = {each: begin(each, starts.get(each, there.start), there)[0] for each, there in ranges.items()}
    waiting = {each: there.end - begins[each] for each, there in ranges.items()}
    total = sum(waiting.values())
    if most is None or total <= most:
        return {each: there.end for each, there in ranges.items()}
    shares = {each: most * size / total for each, size in waiting.items()}
    # A share of less than one record would starve a small partition for ever.
    steps = {each: ceil(share) if share < 1 else floor(share) for each, share in shares.items()}
    return {each: min(there.end, begins[each] + steps[each]) for each, there in ranges.items()}


def is_too_little(
    starts: Positions, ranges: Mapping[TopicPartition, Range], least: int | None, waited_ms: int, longest_ms: int
) -> bool:
    """Whether to wait for more: fewer offsets than wanted are there, and there is time."""
    if least is None or waited_ms >= longest_ms:
        return False
    return (
        sum(there.end - begin(each, starts.get(each, there.start), there)[0] for each, there in ranges.items()) < least
    )


def split(spans: Sequence[Span], *, tasks: int | None, most: int | None) -> list[Span]:
    """The same offsets in more pieces: about so many at least, none larger than that, in their order."""
    pieces = [piece for span in spans if span.size for piece in _cut(span, ceil(span.size / most) if most else 1)]
    if not tasks or len(pieces) >= tasks:
        return pieces
    total = sum(piece.size for piece in pieces)
    small = [piece for piece in pieces if round(piece.size / total * tasks) <= 1]
    left = total - sum(piece.size for piece in small)
    wanted = max(tasks - len(small), 1)
    kept = set(small)
    return [
        cut
        for piece in pieces
        for cut in _cut(piece, 1 if piece in kept else max(1, round(piece.size / left * wanted)))
    ]


def _cut(span: Span, parts: int) -> list[Span]:
    cuts = [span.start + span.size * number // parts for number in range(parts + 1)]
    return [Span(span.of, low, high) for low, high in pairwise(cuts) if low < high]


def plan_slice(span: Span, timestamp_type: int, tabled: Tabled | None, topic_id: str | None = None) -> Slice:
    """With the files that hold something of it; none of another topic, where somebody says the id of this one."""
    if tabled is None or tabled.end <= span.start or topic_id not in (None, tabled.topic_id):
        return Slice(span, timestamp_type, None)
    files = tuple(file for file in tabled.files if file.next_offset > span.start and file.base_offset < span.end)
    return Slice(span, timestamp_type, replace(tabled, files=files))
