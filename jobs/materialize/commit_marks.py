"""Marks: progress stored with each commit to the output, and the numbering of batches. Pure.

A batch is one commit, with the mark in its user metadata and the batch's number as Delta's own transaction version. The
number is one more than that of the mark before it, so of several runs that began there only one is stored: Delta skips
a version that is not above the last. The same check detects numbers that are no longer visible, as the table's log was
cleaned up.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

__all__ = ["Mark", "Overtaken", "Positions", "find_mark", "sink_of"]

_NAME: Final = "lakelog"
Positions = Mapping[int, int]


class Overtaken(Exception):
    """Another run has stored the batch first: the known mark is outdated."""


@dataclass(frozen=True, slots=True)
class Mark:
    """Mark of a commit. `run` stored it. `next`: next offset by partition; `began`: those before this batch.

    `letters`: offsets in the dead-letter topic, by partition, from which to look for letters of records that the output
    has not reached.
    """

    sink: str
    batch: int
    run: str
    next: Positions = field(default_factory=dict[int, int])
    began: Positions = field(default_factory=dict[int, int])
    letters: Positions = field(default_factory=dict[int, int])
    topic_id: str | None = None
    rows: int = 0
    bad: int = 0

    def following(self, run: str, ends: Positions, letters: Positions, *, rows: int, bad: int) -> Mark:
        """Mark of the next batch, which ends at `ends`."""
        ahead = {partition: end for partition, end in ends.items() if self.next.get(partition) != end}
        began = {partition: self.next[partition] for partition in ahead if partition in self.next}
        return replace(
            self,
            batch=self.batch + 1,
            run=run,
            next={**self.next, **ahead},
            began=began,
            letters=letters,
            rows=rows,
            bad=bad,
        )

    def to_json(self) -> str:
        of = {
            "sink": self.sink,
            "batch": self.batch,
            "run": self.run,
            "began": _texts(self.began),
            "next": _texts(self.next),
            "letters": _texts(self.letters),
            "topic_id": self.topic_id,
            "rows": self.rows,
            "dead_letters": self.bad,
        }
        return json.dumps({_NAME: of}, ensure_ascii=False)


def sink_of(cluster: str, topic: str) -> str:
    """Name of a topic within a table, independent of the group and checkpoint of a run."""
    return f"lakelog/{cluster}/{topic}"


def find_mark(texts: Iterable[str | None], sink: str) -> Mark | None:
    """Find the first mark of a sink in the user metadata of commits, given newest first."""
    for text in texts:
        mark = _parse(text) if text else None
        if mark is not None and mark.sink == sink:
            return mark
    return None


def _parse(text: str) -> Mark | None:
    """Parse a mark; None if the metadata is of another writer."""
    try:
        of: dict[str, Any] = json.loads(text)[_NAME]
        return Mark(
            of["sink"],
            of["batch"],
            of["run"],
            _numbers(of["next"]),
            _numbers(of["began"]),
            _numbers(of["letters"]),
            of["topic_id"],
            of["rows"],
            of["dead_letters"],
        )
    except (ValueError, KeyError, TypeError, AttributeError):
        return None


def _texts(positions: Positions) -> dict[str, int]:
    return {str(partition): offset for partition, offset in sorted(positions.items())}


def _numbers(positions: Mapping[str, int]) -> dict[int, int]:
    return {int(partition): offset for partition, offset in positions.items()}
