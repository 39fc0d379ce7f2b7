"""What each commit to the output says of how far it is: the mark, and how runs number their batches. Pure.

A batch is one commit, with the mark in its user metadata and the batch's number as Delta's own transaction version. The
number is one more than that of the mark that the batch began behind, so of all who began there one alone is stored:
Delta leaves out a version that is not above the last. Numbers that came out of sight, as the table's log was cleaned
up, are noticed by just that.
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
    """Another run does what this one was about to: what it knows of the output is of the past."""


@dataclass(frozen=True, slots=True)
class Mark:
    """`run` is who stored it. `next` is the next offset of each partition that was read, `began` that before it.

    `letters` is where, in each partition of the dead-letter topic, to look for dead letters that stand for records
    which the output has not come to.
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
        """The mark of the next batch, which ends there."""
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
    """What a table calls a topic that goes into it, whichever group's name or checkpoint a run has."""
    return f"lakelog/{cluster}/{topic}"


def find_mark(texts: Iterable[str | None], sink: str) -> Mark | None:
    """The first of this sink among what commits say, the newest first."""
    for text in texts:
        mark = _parse(text) if text else None
        if mark is not None and mark.sink == sink:
            return mark
    return None


def _parse(text: str) -> Mark | None:
    """None where somebody else has said something of his own."""
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
