"""Plan of `lakelog consume`: where it begins, and when it ends. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

if TYPE_CHECKING:
    from lakelog.consume.shapes import ConsumerRecord
    from lakelog.foundation.topic_partition import TopicPartition

__all__ = ["Aim", "Begin", "Misuse", "decide_begin"]

#: The most records of one poll.
_MOST: Final = 10_000


class Misuse(Exception):
    """Arguments that contradict each other."""


class Begin(NamedTuple):
    """Start of reading: one of the kinds; `group` continues at the group's offsets."""

    kind: Literal["group", "beginning", "end", "time", "offset"]
    at: int = 0


def decide_begin(
    *, group: str | None, beginning: bool, follow: bool, timestamp: int | None, offset: str | None, partitions: int
) -> Begin:
    """Decide the start. `partitions`: how many are read without a group, 0 if not known yet."""
    given = [each for each in (beginning or None, timestamp, offset) if each is not None]
    if len(given) > 1:
        raise Misuse("--from-beginning, --timestamp and --offset exclude each other; say one")
    if group is not None:
        if timestamp is not None or offset is not None:
            raise Misuse("a group reads on where it is; `lakelog groups reset-offsets` has it begin elsewhere")
        return Begin("group")
    if timestamp is not None:
        return Begin("time", timestamp)
    if offset in ("earliest", "latest"):
        return Begin("beginning" if offset == "earliest" else "end")
    if offset is not None:
        if partitions > 1:
            raise Misuse("an offset is one of a partition; say which with --partition")
        return Begin("offset", int(offset))
    return Begin("end" if follow and not beginning else "beginning")


class Aim:
    """Progress toward the end of reading. `most`: the most records, None for all; with `follow` there is no end."""

    def __init__(self, most: int | None, *, follow: bool) -> None:
        self.read = 0
        self._most = most
        self._follow = follow
        self._ends: dict[TopicPartition, int] = {}
        self._next: dict[tuple[str, int], int] = {}

    @property
    def room(self) -> int:
        """The most records of the next poll."""
        return _MOST if self._most is None else min(_MOST, self._most - self.read)

    @property
    def allowed(self) -> int | None:
        """The most records that may still be read; None for no limit."""
        return None if self._most is None else self._most - self.read

    def unknown(self, assigned: Iterable[TopicPartition]) -> list[TopicPartition]:
        """Assigned partitions of unknown end; those no longer assigned are dropped, as other members read them."""
        assigned = set(assigned)
        self._ends = {place: end for place, end in self._ends.items() if place in assigned}
        return [] if self._follow else sorted(assigned - self._ends.keys())

    def learn_ends(self, ends: Mapping[TopicPartition, int]) -> None:
        self._ends |= ends

    def learn_position(self, place: TopicPartition, offset: int | None) -> None:
        if offset is not None:
            self._next[place] = max(offset, self._next.get(place, 0))

    def learn_records(self, records: Sequence[ConsumerRecord]) -> None:
        """Note the records read, given in their order."""
        seen = len(records)
        if len(self._ends) == 1:
            # One partition: the last record suffices; if that is wrong, a quiet poll corrects it.
            records = records[-1:]
        self.learn(seen, {(record.topic, record.partition): record.offset + 1 for record in records})

    def learn(self, count: int, nexts: Mapping[tuple[str, int], int]) -> None:
        """Note `count` more records read, with the next offsets of their partitions."""
        self.read += count
        if not self._follow:
            self._next |= nexts

    @property
    def left(self) -> int:
        """Estimate of the records still to be read; too high if offsets have gaps."""
        known = sum(max(0, end - self._next.get(place, 0)) for place, end in self._ends.items())
        return known if self._most is None else min(known, self._most - self.read)

    @property
    def behind(self) -> list[TopicPartition]:
        """Partitions with more to read, as far as is known."""
        return [place for place, end in self._ends.items() if self._next.get(place, 0) < end]

    @property
    def reached(self) -> bool:
        if self._most is not None and self.read >= self._most:
            return True
        return not self._follow and not self.behind
