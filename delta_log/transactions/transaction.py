"""One transaction that has not ended, and what its callers are told. It holds state; it does nothing."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, Self

from delta_log.append.append_unit import Decide, Prepared
from delta_log.model.errors import LakelogError
from delta_log.transactions.buffered_records import BufferedRecords
from delta_log.transactions.spill import Spill
from delta_log.transactions.transaction_id import TransactionKey
from delta_log.transactions.transaction_log import Committed

State = Literal["open", "committed", "aborted"]


class Addition(Protocol):
    """What a caller stores with the commit. Of a name a transaction has one."""

    @property
    def name(self) -> str: ...

    @property
    def size(self) -> int:
        """The bytes of it and of its note."""
        ...

    def join(self, before: Any, /) -> Self:
        """Both in one, where `before` was added before; raises where they do not go together."""
        ...

    def note(self) -> Any:
        """Plain values, that are kept with the answer."""
        ...


@dataclass(frozen=True, slots=True)
class Begun:
    """`epoch` is that of the producer `transactional_id` from now on. `timeout_ms` is what is left of its time."""

    id: str
    transactional_id: str
    epoch: int
    timeout_ms: int


@dataclass(frozen=True, slots=True)
class Known:
    """What is known of a transaction: `committed` is the answer to its commit, `why` the reason that it was aborted."""

    id: str
    state: State
    committed: Committed | None = None
    why: LakelogError | None = None


@dataclass(frozen=True, slots=True)
class Commit:
    """A transaction on its way to its decision: to be stored as part of one unit, which `decide` ends."""

    appends: Sequence[Prepared]
    decide: Decide
    additions: Sequence[Any]


@dataclass(slots=True, eq=False)
class Transaction:
    """`lock` is held while it is added to. `deciding` is there while a commit is under way, for all who ask for it."""

    key: TransactionKey
    deadline_ms: int
    held: BufferedRecords
    version: int | None = None
    lock: threading.Lock = field(default_factory=threading.Lock)
    #: by name
    additions: dict[str, Addition] = field(default_factory=dict[str, Addition])
    spill: Spill | None = None
    deciding: Future[Committed] | None = None
    committed: Committed | None = None
    #: How many groups had been stored when its commit was last in its turn, and when one was of which nobody knows
    #: whether it is stored.
    tried_at: int = -1
    doubted_at: int = -1
    ended: bool = False
