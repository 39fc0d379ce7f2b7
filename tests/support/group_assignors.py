"""Assignors of somebody's own."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from consumer_groups.assignors.range import assign_range
from consumer_groups.model.assignment import Subscriber, TopicPartition


def fail_without_b(
    subscribers: Sequence[Subscriber], partitions: Mapping[str, int]
) -> dict[str, frozenset[tuple[str, int]]]:
    """All goes to b."""
    everything = frozenset((topic, each) for topic, count in partitions.items() for each in range(count))
    given = {each.member_id: frozenset[tuple[str, int]]() for each in subscribers}
    if "b" not in given:
        raise KeyError("b")
    return given | {"b": everything}


class Gate:
    """Where an assignor waits; `passed` is how often it went on."""

    def __init__(self) -> None:
        self.entered = threading.Event()
        self.go_on = threading.Event()
        self.thread = 0
        self.passed = 0


_gates: list[Gate] = []


@contextmanager
def gate() -> Iterator[Gate]:
    made = Gate()
    _gates.append(made)
    try:
        yield made
    finally:
        made.go_on.set()
        _gates.remove(made)


def wait_at_the_gate(
    subscribers: Sequence[Subscriber], partitions: Mapping[str, int]
) -> Mapping[str, frozenset[TopicPartition]]:
    """As `range`, when it may go on."""
    gate = _gates[-1]
    gate.thread = threading.get_ident()
    gate.entered.set()
    assert gate.go_on.wait(60)
    gate.passed += 1
    return assign_range(subscribers, partitions)
