"""The door to a ledger: tables of keyed rows that are journaled as records are, so a change costs a share of one sync.

    ledger = log.open_ledger([BOOKMARKS])
    state = ledger.load("__bookmarks")                                          # at the start
    await ledger.queue_up([("__bookmarks", ("alice", 7))])                      # or append, in a thread

The rows of one call are one unit: all of them are stored durably, in all their tables, or none. Records for topics can
be part of the unit. The module knows tables and rows; it must not know their meaning.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Sequence

from delta_log.append.append_unit import Decide, EncodedRows, KnownTable, LedgerRequest, Line, Prepared, TableRows
from delta_log.append.async_append import AsyncAppender, LedgerUnit
from delta_log.model.errors import Closed, InvalidRequest, LakelogError, StorageRefused
from delta_log.model.types import Appended
from delta_log.records.keyed_table import LedgerTable, Row, RowCodec, check_ledger_table
from delta_log.startup.open import Running, take_ownership
from delta_log.topics.row_formats import LedgerRows
from delta_log.topics.topic_state import TopicState

__all__ = ["Decide", "Ledger", "LedgerTable", "Prepared", "Row"]

#: Blocks a thread while too many bytes are not in the tables yet.
WaitForRoom = Callable[[TopicState, int], None]


class Ledger:
    """A set of keyed tables. A table is created for its first row, and owned before the first row of this process."""

    def __init__(
        self,
        running: Running,
        tables: Sequence[LedgerTable],
        loops: AsyncAppender,
        wait_for_room: WaitForRoom,
        clock_ms: Callable[[], int],
    ) -> None:
        for table in tables:
            check_ledger_table(table)
        self._running = running
        self._tables = {table.name: KnownTable(table, RowCodec(table)) for table in tables}
        self._loops = loops
        self._wait_for_room = wait_for_room
        self._clock_ms = clock_ms
        self._line = Line()
        self._lock = threading.Lock()
        self._behind: deque[LedgerUnit] = deque()

    def load(self, table: str) -> list[Row]:
        """The latest row of each key, in the order in which they were stored, without deleted ones."""
        live = self._open(self._known(table), create=False)
        if live is None or not isinstance(live.rows, LedgerRows):
            return []
        if live.closed is not None:
            raise live.closed
        return live.rows.load(live, self._running.journal)

    def append(
        self, rows: Sequence[tuple[str, Row]], appends: Sequence[Prepared] = (), *, decide: Decide | None = None
    ) -> tuple[Appended, ...]:
        """Store all of the rows or none, each in its table; returns when they are durable.

        With `appends` (see `Log.prepare`) their records are in the same unit, in the given order; each append has an
        answer. `decide` runs last, in the unit's turn: it may refuse, or add rows.
        """
        self._check()
        request = self._request(self.encode(rows), appends, decide)
        self._own(request)
        for live, size in _sizes(request):
            self._wait_for_room(live, size)
        self._running.writer.append(None, request)
        return request.answers

    def queue_up(
        self,
        rows: Sequence[tuple[str, Row]],
        appends: Sequence[Prepared] = (),
        *,
        decide: Decide | None = None,
        in_line: bool = True,
    ) -> asyncio.Future[tuple[Appended, ...]]:
        """Append from an event loop, in one step; the future resolves once these and all earlier rows are durable.

        A caller that does not wait bases its next decisions on rows that may fail. So if one unit is not stored, no
        unit queued after it is stored, until `resume`. Without rows nothing is stored: the call only waits for earlier
        ones. A unit that is not `in_line` depends on no earlier unit, and fails alone.
        """
        self._check()
        return self.queue_up_encoded(self.encode(rows), appends, decide=decide, in_line=in_line)

    def queue_up_encoded(
        self,
        parts: EncodedRows,
        appends: Sequence[Prepared] = (),
        *,
        decide: Decide | None = None,
        in_line: bool = True,
    ) -> asyncio.Future[tuple[Appended, ...]]:
        """Queue up rows from `encode`, which may have run in any thread."""
        request = self._request(parts, appends, decide)
        if in_line:
            request.line, request.number = self._line, self._line.number
        for live, size in _sizes(request):
            self._running.writer.check_room(live, size)
        unit = LedgerUnit(self._running.writer, request, self._loops.mailbox())
        with self._lock:
            if self._behind or not request.ready:
                self._wait_for_tables(unit)
            else:
                self._loops.enter(unit)
        return unit.future

    def resume(self) -> None:
        """Accept rows again after a failure: the caller has undone its decisions that were based on the failed rows."""
        self._line.number += 1

    def encode(self, rows: Sequence[tuple[str, Row]]) -> EncodedRows:
        """Encode rows into the form that `decide` returns."""
        encoded: dict[str, tuple[KnownTable, list[bytes]]] = {}
        for index, (name, row) in enumerate(rows):
            known = self._known(name)
            encoded.setdefault(name, (known, []))[1].append(known.codec.encode(index, row))
        return [TableRows(known, lines, sum(map(len, lines))) for known, lines in encoded.values()]

    def own_tables(self) -> None:
        """Create and own all tables, so that rows can be stored there without waiting."""
        for known in self._tables.values():
            live = self._open(known, create=True)
            if live is not None and not live.owned:
                take_ownership(self._running, live)

    def _check(self) -> None:
        if self._running.writer.fatal is not None:
            raise self._running.writer.fatal

    def _request(self, parts: EncodedRows, appends: Sequence[Prepared], decide: Decide | None) -> LedgerRequest:
        self._check()
        size = sum(append.request.size for append in appends) + sum(part.size for part in parts)
        return LedgerRequest(parts, size, self._clock_ms(), appends=appends, decide=decide)

    def _known(self, name: str) -> KnownTable:
        known = self._tables.get(name)
        if known is None:
            raise InvalidRequest(f"{name!r} is no table of this ledger: {', '.join(self._tables)}")
        return known

    def _open(self, known: KnownTable, *, create: bool) -> TopicState | None:
        if known.live is None:
            known.live = self._running.catalog.ledger(known.table, create=create)
        return known.live

    def _own(self, request: LedgerRequest) -> None:
        """Create and own the tables of a request, by commits to them, which wait for the disk."""
        for known, *_ in request.parts:
            live = self._open(known, create=True)
            if live is not None and not live.owned:
                take_ownership(self._running, live)
        for append in request.appends:
            take_ownership(self._running, append.live)

    def _wait_for_tables(self, unit: LedgerUnit) -> None:
        """Queue a unit that waits for its tables; all later units wait behind it, so that none overtakes it."""
        self._behind.append(unit)
        if len(self._behind) == 1:
            try:
                self._running.owning.submit(self._catch_up, unit)
            except RuntimeError:
                self._behind.clear()
                raise Closed from None

    def _catch_up(self, unit: LedgerUnit) -> None:
        while True:
            error = self._try_to_own(unit)
            with self._lock:
                if error is None:
                    self._loops.enter(unit)
                else:
                    unit.error = error
                    unit.done()
                    unit.deliver()
                self._behind.popleft()
                if not self._behind:
                    return
                unit = self._behind[0]

    def _try_to_own(self, unit: LedgerUnit) -> LakelogError | None:
        request = unit.request
        try:
            if isinstance(request, LedgerRequest):
                if request.line is not None:
                    request.line.check(request.number)
                self._own(request)
        except LakelogError as error:
            return error
        except Exception as error:  # noqa: BLE001 - a caller waits for the outcome, whatever the error is
            return StorageRefused("a table of the ledger", repr(error))
        return None


def _sizes(request: LedgerRequest) -> list[tuple[TopicState, int]]:
    """The bytes of a request for each topic and table."""
    sizes: dict[int, tuple[TopicState, int]] = {}
    rows = [(part.known.live, part.size) for part in request.parts]
    for live, size in [*rows, *((append.live, append.request.size) for append in request.appends)]:
        if live is not None:
            sizes[id(live)] = live, sizes.get(id(live), (live, 0))[1] + size
    return list(sizes.values())
