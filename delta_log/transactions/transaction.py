"""The state of an open transaction, and the answers to its callers. Values only, no behaviour."""

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
    """Data that a caller stores with the commit. A transaction has one addition per name."""

    @property
    def name(self) -> str: ...

    @property
    def size(self) -> int:
        """Bytes of the addition and of its note."""
        ...

    def join(self, before: Any, /) -> Self:
        """Join it with the earlier addition `before`; raises if they are not compatible."""
        ...

    def note(self) -> Any:
        """Plain values that are kept with the answer."""
        ...


@dataclass(frozen=True, slots=True)
class Begun:
    """A begun transaction. `epoch`: the producer's from now on. `timeout_ms`: the time left to its deadline."""

    id: str
    transactional_id: str
    epoch: int
    timeout_ms: int


@dataclass(frozen=True, slots=True)
class Known:
    """The known state of a transaction. `committed`: the answer to its commit; `why`: the reason of its abort."""

    id: str
    state: State
    committed: Committed | None = None
    why: LakelogError | None = None


@dataclass(frozen=True, slots=True)
class Commit:
    """A commit to store as part of one unit, which `decide` completes."""

    appends: Sequence[Prepared]
    decide: Decide
    additions: Sequence[Any]


@dataclass(slots=True, eq=False)
class Transaction:
    """An open transaction. `lock`: held while adding to it. `deciding`: shared by all callers of a commit under way."""

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
    #: Number of stored groups at its last commit attempt, and at the last attempt with an unknown outcome; −1 if none.
    tried_at: int = -1
    doubted_at: int = -1
    ended: bool = False
