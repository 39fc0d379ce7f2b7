"""Planning of reads: positions, tasks and files of a query. Pure.

    start ──────── in the files of the table ──────── table end ──── from the server ──── end
          |  task  |  task  |            task                    |          task        |

A position below the log start, or beyond the end, means that records were lost to the query: each loss is reported, and
reading goes on at the log start.
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
    """A topic as planning sees it. `id` tells it from other topics of the same name; None if unknown."""

    partitions: int
    timestamp_type: int
    id: str | None


class Span(NamedTuple):
    """Offsets of a partition to read: from `start` to below `end`."""

    of: TopicPartition
    start: int
    end: int

    @property
    def size(self) -> int:
        return self.end - self.start


@dataclass(frozen=True, slots=True)
class PlannedFile:
    """A data file by its path in the root, with the offset after its last record.

    A dense one has every offset in between: if only offsets are needed, it is not read.
    """

    path: str
    base_offset: int
    next_offset: int
    dense: bool


@dataclass(frozen=True, slots=True)
class Tabled:
    """Content of a partition's table, as of the version of the plan."""

    topic_id: str
    end: int
    files: tuple[PlannedFile, ...] = ()


@dataclass(frozen=True, slots=True)
class Slice:
    """Input of one task: offsets in the files come from these, the rest from the server."""

    span: Span
    timestamp_type: int
    tabled: Tabled | None


def choose_topics(chosen: Chosen, topics: Collection[str]) -> list[str]:
    """Choose the topics to read. A pattern is matched against the existing ones; named ones are not checked."""
    if isinstance(chosen, Pattern):
        return sorted(topic for topic in topics if chosen.fullmatch(topic))
    return sorted({each if isinstance(each, str) else each.topic for each in chosen})


def choose_partitions(chosen: Chosen, counts: Mapping[str, int], place: str) -> list[TopicPartition]:
    """Choose the partitions to read, given the partition counts of topics."""
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
    """Check that offsets or times given by partition name exactly the partitions that are read."""
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
    """Return whether a limit covers a partition."""
    if isinstance(limit, AtOffsets):
        return partition in limit.offsets
    return not isinstance(limit, AtTime) or limit.of(partition) is not None


def times_wanted(limit: Limit, partitions: Iterable[TopicPartition]) -> Times:
    """Times for which offsets must be looked up."""
    if not isinstance(limit, AtTime):
        return {}
    return {each: time for each in partitions if (time := limit.of(each)) is not None}


def is_settled(limit: Limit, strategy: str) -> bool:
    """Return whether a limit always resolves to the same offsets, apart from retention."""
    if isinstance(limit, AtTime):
        return strategy == "error"
    if isinstance(limit, AtOffsets):
        return LATEST not in limit.offsets.values()
    return limit == Everywhere(EARLIEST)


def resolve(
    limit: Limit, ranges: Mapping[TopicPartition, Range], at_times: Mapping[TopicPartition, int | None]
) -> Positions:
    """Resolve a limit to a position in each partition; a time later than every record gives the end."""
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
    """Refuse a time later than every record, if the strategy is `error`."""
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
    """Plan the spans between two sets of positions, and describe the losses.

    A partition without a start is new, and begins at its log start.
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
    """Offset at which reading from a position begins, and a description of the loss, if any."""
    if position < there.start:
        return there.start, f"{each} was read up to {position} and begins at {there.start}"
    if position > there.end:
        return there.start, (
            f"{each} was read up to {position} and ends at {there.end}: it is another topic of "
            "that name, or the tables are behind a server that was read before"
        )
    return position, ""


def plan_ends(starts: Positions, ranges: Mapping[TopicPartition, Range], most: int | None) -> Positions:
    """Plan the end of a batch of a stream: at most `most` offsets further, in proportion to each partition's backlog.

    A partition that is gone is left out: that is reported when the batch is planned.
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
    """Return whether to wait for more: fewer offsets than wanted are present, and there is time."""
    if least is None or waited_ms >= longest_ms:
        return False
    return (
        sum(there.end - begin(each, starts.get(each, there.start), there)[0] for each, there in ranges.items()) < least
    )


def split(spans: Sequence[Span], *, tasks: int | None, most: int | None) -> list[Span]:
    """Split spans into at least about `tasks` pieces of at most `most` offsets, in order."""
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
    """Plan a slice with the files that overlap it; none if the table is of a topic with another id, as far as known."""
    if tabled is None or tabled.end <= span.start or topic_id not in (None, tabled.topic_id):
        return Slice(span, timestamp_type, None)
    files = tuple(file for file in tabled.files if file.next_offset > span.start and file.base_offset < span.end)
    return Slice(span, timestamp_type, replace(tabled, files=files))
