"""Writer of dead letters: each is stored once, even if its batch is repeated, by this run or another.

Before its first batch a run takes the next epoch of the sink's producer, which fences every earlier run, and looks for
letters that earlier runs stored for records that the output has not reached. From then on no other run stores any, so
the letters found are complete; and a record given up stays so, even if it would be a valid row by now.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from jobs.groups.dead_letter_topic import LetterTopic
from jobs.groups.dead_letters import Letter, Origin, origin_of
from jobs.groups.group_client import Groups
from jobs.materialize.commit_marks import Mark, Overtaken, Positions
from jobs.materialize.dead_letter_bookmark import Seen, bookmark
from jobs.source.errors import NotReadable
from jobs.source.rest_client import OutOfRange
from jobs.source.server import Numbered, Server

__all__ = ["DeadLetters"]

_CONFLICT: Final = 409


class DeadLetters:
    """Dead letters of one topic for one group and run. `sink`: runs of the same one fence each other."""

    def __init__(self, groups: Groups, server: Server, *, to: str, topic: str, group: str, sink: str) -> None:
        self.to = to
        self._groups = groups
        self._server = server
        self._topic = topic
        self._group = group
        self._sink = sink
        self._letters = LetterTopic(groups, server, to=to, group=group)
        self._numbered: Numbered | None = None
        self._ends: dict[int, int] = {}
        self._seen: list[Seen] = []

    def given_up(self, mark: Mark) -> list[Origin]:
        """Records after the mark that are dead letters already."""
        if self._numbered is None:
            self._open(mark)
        return [seen.origin for seen in self._seen if seen.origin.offset >= mark.next.get(seen.origin.partition, 0)]

    def store(self, letters: Iterable[Letter]) -> None:
        """Store letters durably. Overtaken if this run is fenced."""
        assert self._numbered is not None  # noqa: S101 - it is open
        known = {seen.origin for seen in self._seen}
        new = (letter for letter in letters if letter.origin not in known)
        try:
            self._numbered, behind = self._letters.send(new, self._topic, self._numbered)
        except NotReadable as error:
            if error.status == _CONFLICT:
                raise Overtaken from error
            raise
        # A run that fences this one stores its letters after these.
        self._ends.update(behind)

    def bookmark(self, reached: Positions) -> dict[int, int]:
        """Bookmark for a mark with these positions."""
        return bookmark(self._ends, self._seen, reached)

    def _open(self, mark: Mark) -> None:
        told = self._groups.ask("POST", "/producers", {"transactional_id": self._sink}).json()
        numbered = Numbered(told["producer_id"], 0, told["epoch"])
        self._ends = {number: self._server.range(self.to, number).end for number in range(self._letters.look())}
        self._seen = [
            seen
            for number, end in self._ends.items()
            for seen in self._look(number, mark.letters.get(number, 0), end)
            if seen.origin.offset >= mark.next.get(seen.origin.partition, 0)
        ]
        self._numbered = numbered

    def _look(self, partition: int, start: int, end: int) -> Iterator[Seen]:
        """Find letters of the topic for the group in a range of a partition, as far as it is still present."""
        there = self._server.range(self.to, partition)
        position = there.start if start > there.end else max(start, there.start)
        while position < end:
            try:
                for batch in self._server.read(self.to, partition, position, end, ("offset", "headers")):
                    for row in batch.to_pylist():
                        position = row["offset"] + 1
                        origin = origin_of(row["headers"], self._topic, self._group)
                        if origin is not None:
                            yield Seen(partition, row["offset"], origin)
                return
            except OutOfRange as error:
                position = error.there.start
