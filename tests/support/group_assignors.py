"""Assignors of somebody's own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from consumer_groups.assignment import Subscriber


def fail_without_b(
    subscribers: Sequence[Subscriber], partitions: Mapping[str, int]
) -> dict[str, frozenset[tuple[str, int]]]:
    """All goes to b."""
    everything = frozenset((topic, each) for topic, count in partitions.items() for each in range(count))
    given = {each.member_id: frozenset[tuple[str, int]]() for each in subscribers}
    if "b" not in given:
        raise KeyError("b")
    return given | {"b": everything}
