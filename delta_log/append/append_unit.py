"""What one call brings to a ledger's tables, on its way through the queue: all of it is stored, or nothing.

It may append to topics, too: then the records of all topics and the rows of all tables are one unit. Every table and
topic is looked at first; offsets and places are given out only when nothing can refuse any more.
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
    """`live` is None until the table is asked for, and where there is none yet."""

    table: LedgerTable
    codec: RowCodec
    live: TopicState | None = None

    @property
    def ready(self) -> bool:
        """Whether rows may be given places there with nothing to wait for."""
        return self.live is not None and self.live.owned


class Prepared(msgspec.Struct, frozen=True, gc=False):
    """Records of one topic, checked and split by partition; they have no offsets, and nobody sees them."""

    live: TopicState
    request: Request


class TableRows(NamedTuple):
    """Rows of one table, encoded, and the bytes of all of them."""

    known: KnownTable
    rows: list[bytes]
    size: int


EncodedRows = Sequence[TableRows]

#: Asked in the turn of a unit, when nothing else can refuse it: what is known of producers, and what each of its
#: appends will be answered with. It refuses by raising; what it returns are rows that are stored, too. Their tables
#: are among those of the request.
Decide = Callable[[Producers, Sequence[Appended]], EncodedRows]


class Line:
    """Units of which each was decided upon those before it: where one is not stored, none behind it is.

    Those of a later number were decided when that was known.
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
        """`why` is what those behind it are told, of which it is sure that they are not stored."""
        if number > self._broken:
            self._why, self._broken = why, number


class LedgerRequest(msgspec.Struct):
    """Rows, encoded, by their table. `line` and `number` are those of a unit that was decided upon others.

    `answers` are those of its appends, once it was given offsets.
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
        """Whether it can be given places with nothing to wait for."""
        return all(part.known.ready for part in self.parts) and all(append.live.owned for append in self.appends)

    def break_line(self, why: BaseException) -> None:
        if self.line is not None:
            self.line.break_at(self.number, self._reason_behind(why))

    def _reason_behind(self, why: BaseException) -> BaseException:
        """Of those behind it, each is refused by what refuses all; not by what concerns this one alone."""
        closed_to_all = isinstance(why, TopicClosed) and why.topic not in {each.live.name for each in self.appends}
        if isinstance(why, InvalidRequest | TopicClosed) and not closed_to_all:
            return PredecessorFailed(why)
        if isinstance(why, LakelogError) and why.outcome == LakelogError.outcome:
            return why
        return StorageRefused("what was decided upon rows that may not be stored", why)


class LedgerRun(msgspec.Struct):
    """Rows that the units of a group bring to one table, on their way to one frame."""

    live: TopicState
    base: int
    rows: list[bytes]
    timestamp_ms: int
