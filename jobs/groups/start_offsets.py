"""Start offsets of a share, and the progress of a batch: pure.

Reading starts at the group's committed offset, or by the reset policy if nothing is committed, or the offset is no
longer in the log.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Any, Final

from delta_log.model.errors import NotAvailable
from jobs.source.positions import Positions, Range, TopicPartition, from_json

__all__ = ["POLICIES", "Start", "count_offsets", "find_ends", "find_progress", "plan_starts", "show_starts"]

POLICIES: Final = ("earliest", "latest", "none")


@dataclass(frozen=True, slots=True)
class Start:
    """Start of a partition. `why`, for messages: `committed`, the policy, or the problem of the committed offset."""

    offset: int
    end: int
    why: str

    @property
    def lag(self) -> int:
        return self.end - self.offset


def plan_starts(
    ranges: Mapping[TopicPartition, Range], committed: Positions, policy: str
) -> dict[TopicPartition, Start]:
    """Plan the starts; NotAvailable if the policy is `none` and would be needed."""
    found: dict[TopicPartition, Start] = {}
    for each, there in sorted(ranges.items()):
        offset = committed.get(each)
        if offset is not None and there.start <= offset <= there.end:
            found[each] = Start(offset, there.end, "committed")
            continue
        what = "nothing is committed" if offset is None else f"{offset} is committed, and not in the log any more"
        if policy == "none":
            raise NotAvailable(f"{each}: {what}, and --auto-offset-reset is none")
        start = there.start if policy == "earliest" else there.end
        found[each] = Start(start, there.end, policy if offset is None else f"{policy}, as {what}")
    return found


def owed(starts: Mapping[TopicPartition, Start], policy: str) -> Positions:
    """Offsets to commit before reading: with `latest`, a later restart would otherwise begin at a later end."""
    if policy != "latest":
        return {}
    return {each: start.offset for each, start in starts.items() if start.why != "committed"}


def find_ends(sources: Iterable[Any], share: AbstractSet[TopicPartition]) -> Positions:
    """End offsets of a batch in a share: the lowest over all sources of its query that read it.

    A function may have derived several sources from its stream, and may have started streams of other data.
    """
    found: Positions = {}
    for source in sources:
        ends = _ends_in(share, source)
        found |= {each: min(offset, found.get(each, offset)) for each, offset in ends.items()}
    return found


def _ends_in(share: AbstractSet[TopicPartition], source: Any) -> Positions:
    """End offsets of one source; none if it reads other partitions, too."""
    try:
        ends = from_json(source)
    except (AttributeError, TypeError, ValueError):
        return {}
    return ends if ends.keys() <= share else {}


def find_progress(before: Positions, after: Positions) -> Positions:
    """Partitions in which a batch advanced, with their new offsets."""
    return {each: offset for each, offset in after.items() if before.get(each) != offset}


def count_offsets(before: Positions, after: Positions) -> dict[str, int]:
    """Number of offsets between two positions, by topic."""
    found: dict[str, int] = {}
    for (topic, _), gone in ((each, offset - before.get(each, offset)) for each, offset in after.items()):
        found[topic] = found.get(topic, 0) + max(0, gone)
    return found


def show_starts(starts: Mapping[TopicPartition, Start]) -> Iterable[str]:
    topic = None
    for each, start in sorted(starts.items()):
        if each.topic != topic:
            topic = each.topic
            yield f"topic {topic}"
        yield f"partition {each.partition}: from {start.offset} ({start.why}) to {start.end}"
