"""A call's rows for keyed tables, queued as one unit: all of it is stored, or nothing.

A unit may append to topics, too: then the records of all topics and the rows of all tables are stored together. Every
table and topic is checked first; offsets are assigned only once nothing can refuse any more.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import msgspec

from delta_log.model.errors import InvalidRequest, LakelogError, PredecessorFailed, StorageRefused, TopicClosed
from delta_log.model.types import Appended
from delta_log.records.idempotence import Producers
from delta_log.records.keyed_table import LedgerTable, RowCodec
from delta_log.records.request import Request
from delta_log.topics.topic_state import TopicState


class KnownTable(msgspec.Struct):
    """A keyed table and its codec. `live` is None until the table is opened or created."""

    table: LedgerTable
    codec: RowCodec
    live: TopicState | None = None

    @property
    def ready(self) -> bool:
        """True if rows can be sequenced there without waiting."""
        return self.live is not None and self.live.owned


class Prepared(msgspec.Struct, frozen=True, gc=False):
    """Records of one topic, checked and split by partition; not yet sequenced, and visible to no reader."""

    live: TopicState
    request: Request


class TableRows(NamedTuple):
    """Rows of one table, encoded, and the bytes of all of them."""

    known: KnownTable
    rows: list[bytes]
    size: int


EncodedRows = Sequence[TableRows]

#: Called when a unit is sequenced, after all other checks, with the producers' state and the planned answer of each of
#: its appends. It refuses by raising; the rows it returns are stored, too. Their tables are among those of the request.
Decide = Callable[[Producers, Sequence[Appended]], EncodedRows]


class Line:
    """Units of which each depends on those before it: if one is not stored, no later one that relied on it is.

    `break_at` affects numbers up to the given one; units with a higher number were decided with the failure known.
    """

    __slots__ = ("_broken", "_why", "number")

    def __init__(self) -> None:
        self.number = 0
        self._broken = -1
        self._why: BaseException = LakelogError()

    def check(self, number: int) -> None:
        if number <= self._broken:
            raise self._why

    def break_at(self, number: int, why: BaseException) -> None:
        """Fail all units up to `number` that are not sequenced yet with `why`; they are certainly not stored."""
        if number > self._broken:
            self._why, self._broken = why, number


class LedgerRequest(msgspec.Struct):
    """Encoded rows by table. `line` and `number` are set for a unit that depends on earlier ones.

    `answers`: the answers to its appends, once it is sequenced.
    """

    parts: EncodedRows
    size: int
    timestamp_ms: int
    line: Line | None = None
    number: int = 0
    appends: Sequence[Prepared] = ()
    decide: Decide | None = None
    answers: tuple[Appended, ...] = ()

    @property
    def ready(self) -> bool:
        """True if the unit can be sequenced without waiting."""
        return all(part.known.ready for part in self.parts) and all(append.live.owned for append in self.appends)

    def break_line(self, why: BaseException) -> None:
        if self.line is not None:
            self.line.break_at(self.number, self._reason_behind(why))

    def _reason_behind(self, why: BaseException) -> BaseException:
        """The error for dependent units: `why` itself only if it would refuse them, too."""
        closed_to_all = isinstance(why, TopicClosed) and why.topic not in {each.live.name for each in self.appends}
        if isinstance(why, InvalidRequest | TopicClosed) and not closed_to_all:
            return PredecessorFailed(why)
        if isinstance(why, LakelogError) and why.outcome == LakelogError.outcome:
            return why
        return StorageRefused("what was decided upon rows that may not be stored", why)


class LedgerRun(msgspec.Struct):
    """Rows of a group's units for one table, collected into one frame."""

    live: TopicState
    base: int
    rows: list[bytes]
    timestamp_ms: int
