"""What a machine of transactions knows of each, and of a producer beside them."""

from __future__ import annotations

from dataclasses import dataclass, field

from delta_log import Record
from delta_log.transactions.transaction_log import Committed


@dataclass
class Told:
    """What a transaction must be: `answer` is the first that its commit got."""

    id: str
    name: str
    epoch: int
    deadline_ms: int
    version: int | None = None
    state: str = "open"
    #: something is stored beside it
    added: bool = False
    values: list[tuple[str | None, int, bytes]] = field(default_factory=list)
    answer: Committed | None = None
    sent: dict[tuple[str | None, str], list[list[Record]]] = field(default_factory=dict)

    def counting(self, stages: list[str] | None) -> list[tuple[int, bytes]]:
        """Where which values will be, in their order."""
        if stages is None:
            return [(place, value) for _, place, value in self.values]
        return [(place, value) for stage in (None, *stages) for of, place, value in self.values if of == stage]


@dataclass
class Numbered:
    """A producer of no transaction, in its newest epoch: its next number in each topic, and its last request there."""

    epoch: int
    following: dict[str, int] = field(default_factory=dict)
    last: dict[str, tuple[int, list[Record], list[int]]] = field(default_factory=dict)
