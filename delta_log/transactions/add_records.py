"""Takes records into an open transaction: numbers them, checks for repeats and limits, spills them once many."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from delta_log.model.errors import Overloaded
from delta_log.model.names import check_id
from delta_log.model.transaction_bounds import Bounds
from delta_log.model.types import ProducerStamp
from delta_log.records.request import Request
from delta_log.topics.topic_state import TopicState
from delta_log.transactions.buffered_records import HeldRequest, Staged, cost_of
from delta_log.transactions.registry import TransactionRegistry
from delta_log.transactions.spill import Spill, spill_requests
from delta_log.transactions.transaction import Addition, Transaction

#: Checks records for a topic and splits them by partition; the function returns their number in the topic.
Prepare = Callable[[str, Any, Callable[[TopicState], ProducerStamp | None]], tuple[TopicState, Request]]


def _no_number(_: TopicState) -> None:
    """The number of staged records: none."""


class RecordIntake:
    """Takes records and additions into transactions, each under the transaction's lock."""

    def __init__(
        self, standing: TransactionRegistry, prepare: Prepare, bounds: Bounds, spill_directory: Path | None
    ) -> None:
        self._standing = standing
        self._prepare = prepare
        self._bounds = bounds
        self._spill_directory = spill_directory

    def take(
        self, found: Transaction, topic: str, records: Any, producer: ProducerStamp | None, stage: str | None
    ) -> Staged:
        """Take a whole request; nothing is taken if it is a repeat or is refused."""
        if stage is not None:
            check_id("stage", stage)
        with found.lock:
            self._standing.check_open(found)

            def number(live: TopicState) -> ProducerStamp:
                return found.held.number(live, producer, stage)

            live, request = self._prepare(topic, records, number if stage is None else _no_number)
            new = HeldRequest(live, request, request.stamp or number(live), stage)
            assignment = tuple(request.assignment)
            if found.held.is_repeat(new):
                return Staged(assignment, request.count, duplicate=True)
            self._keep(found, new)
        return Staged(assignment, request.count)

    def add(self, found: Transaction, addition: Addition) -> None:
        """Add to the transaction; an addition of the same name is joined with the earlier one."""
        with found.lock:
            self._standing.check_open(found)
            before = found.additions.get(addition.name)
            joined = addition if before is None else addition.join(before)
            more = joined.size - (0 if before is None else before.size)
            found.held.check_size(more)
            self._hold(more)
            found.held.add(more)
            found.additions[joined.name] = joined

    def _hold(self, cost: int) -> None:
        standing = self._standing
        with standing.lock:
            if standing.held_bytes + cost > self._bounds.total_bytes:
                raise Overloaded("open transactions hold much", standing.held_bytes, self._bounds.total_bytes)
            standing.held_bytes += cost

    def _keep(self, found: Transaction, new: HeldRequest) -> None:
        standing, held, cost = self._standing, found.held, cost_of(new.request)
        self._hold(cost)
        try:
            if held.memory + cost > self._bounds.memory_bytes:
                if found.spill is None:
                    found.spill = Spill(self._spill_directory)
                held.spilled(spill_requests(found.spill, [*held.in_memory(), new]))
        except BaseException:
            with standing.lock:
                standing.held_bytes -= cost
            raise
        held.take(new, cost)
