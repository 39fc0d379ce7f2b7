"""Bisection of a failed batch: it is done in parts, so that only records that fail by themselves become dead letters.

It carries out the steps of `bisection`: processes parts, waits between tries, prints messages. It must not know how a
part is read, computed, stored or committed.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Final, Protocol

from delta_log.runtime.syscalls import Probe as Steps
from jobs.consume.bisection import (
    BisectionState,
    CannotBlameRecord,
    GiveUp,
    Probe,
    Spans,
    Work,
    begin,
    extended,
    failed,
    given_up,
    passed,
    plan_step,
    probed,
)
from jobs.consume.blame import Raised
from jobs.foundation.result import Unfinished
from jobs.foundation.tolerant_output import write_if_room
from jobs.groups.dead_letters import GivenUp
from jobs.groups.group_client import Fenced
from jobs.source.positions import Range, TopicPartition

__all__ = ["Parts", "Rescue"]

_LOOK_EVERY_S: Final = 0.1


class Parts(Protocol):
    """Operations on parts of a batch. Raised is raised if a part fails."""

    def work_on(self, spans: Spans) -> bool:
        """Process and commit a part; returns whether there was a record."""
        ...

    def probe(self, of: TopicPartition, there: Range) -> bool:
        """Process the first record of a range without committing it; False if there is none."""
        ...

    def give_up(self, record: GivenUp) -> None:
        """Store a dead letter and commit its offset, both or neither."""
        ...


class Rescue:
    """Bisection of the failed batches of one query. `limit`: tries of a record; `leave`: tells if the query is to end.

    A bisection that cannot be decided yet continues with the next batch.
    """

    def __init__(self, limit: int, *, leave: Callable[[], bool], wipe: Callable[[], None], probe: Steps) -> None:
        self._limit = limit
        self._leave = leave
        self._wipe = wipe
        self._at = probe
        self._left: BisectionState | None = None
        self._why = ""

    @property
    def is_waiting(self) -> bool:
        return self._left is not None

    def check_done(self) -> None:
        """Raise if an undecided bisection is left; called when there is no next batch."""
        if self._left is not None and isinstance(step := plan_step(self._left), CannotBlameRecord):
            raise Unfinished(f"{self._sentence(step)}, and nothing else came to see whether others pass: {self._why}")

    def run(self, spans: Spans, parts: Parts, why: Raised | None = None) -> None:
        """Process a failed batch to its end, or until undecided. Fenced if the query is to end."""
        if why is not None:
            self._why = str(why)
            self._wipe()
            write_if_room(sys.stderr, f"consume: a batch failed, and is cut to find what cannot be worked on: {why}\n")
        course = begin(spans, self._limit) if self._left is None else extended(self._left, spans)
        self._left = None
        self._at("consume.failed")
        while (step := plan_step(course)) is not None:
            if self._leave():
                raise Fenced("the batch is left where it is")
            if isinstance(step, CannotBlameRecord):
                self._left = self._leave_for_later(course, step)
                return
            course = self._take(step, course, parts)

    def _take(self, step: Work | Probe | GiveUp, course: BisectionState, parts: Parts) -> BisectionState:
        if isinstance(step, Work):
            self._pause(step.pause_s)
            return self._work(step.spans, course, parts)
        if isinstance(step, Probe):
            return probed(course, well=self._probe(step, parts))
        times = _times(step.tries)
        parts.give_up(GivenUp(step.of, step.offset, self._why, step.tries))
        self._wipe()
        write_if_room(
            sys.stderr, f"consume: {step.of} at {step.offset} failed {times}, and is a dead letter now: {self._why}\n"
        )
        return given_up(course)

    def _work(self, spans: Spans, course: BisectionState, parts: Parts) -> BisectionState:
        try:
            seen = parts.work_on(spans)
        except Raised as raised:
            self._why = str(raised)
            self._at("consume.tried")
            return failed(course, spans)
        return passed(course, spans, seen=seen)

    def _probe(self, step: Probe, parts: Parts) -> bool | None:
        try:
            if not parts.probe(step.of, step.there):
                return None
        except Raised:
            return False
        self._at("consume.probed")
        return True

    def _leave_for_later(self, course: BisectionState, step: CannotBlameRecord) -> BisectionState:
        if step.refuted:
            raise Unfinished(
                f"{self._sentence(step)}, and so did all of {step.refuted} others that were tried: "
                f"nothing is given up where nothing passes: {self._why}"
            )
        self._wipe()
        write_if_room(
            sys.stderr, f"consume: {self._sentence(step)}, and is tried again with what comes next: {self._why}\n"
        )
        return course

    def _sentence(self, step: CannotBlameRecord) -> str:
        return f"{step.of} at {step.offset} failed {_times(step.tries)}"

    def _pause(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0 and not self._leave():
            time.sleep(min(left, _LOOK_EVERY_S))


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"
