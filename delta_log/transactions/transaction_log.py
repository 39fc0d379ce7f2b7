"""The memory of committed transactions, and of those that timed out. Pure.

The table keeps the last five of each transactional id: it has five slots for the id, and an epoch takes the slot
epoch % 5, so a commit replaces one that is at least five epochs older. Aborted transactions are not kept: a transaction
that is absent here, and not older than what is kept, was aborted. Timeouts are kept in five further slots, only to give
the reason after a restart; they decide nothing.

A commit may have a version. The highest version of a transactional id is kept for ever: only it distinguishes a batch
that is repeated after a long time from a new one.

`ranges` are the assigned offsets, by topic. Once the tables have them, the row also names for each topic a version of
its table that has all of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final, Literal

import msgspec
import pyarrow as pa

from delta_log.model.schema import TIMESTAMP
from delta_log.model.types import OffsetRange
from delta_log.records.idempotence import is_later
from delta_log.records.keyed_table import LedgerTable, Row
from delta_log.transactions.transaction_id import TransactionKey

TABLE: Final = "__transactions"
TRANSACTIONS: Final = LedgerTable(
    TABLE,
    pa.schema(
        [
            ("transactional_id", pa.string()),
            ("slot", pa.int32()),
            ("epoch", pa.int32()),
            ("nonce", pa.string()),
            ("state", pa.string()),
            ("ranges", pa.string()),
            ("requests", pa.string()),
            ("notes", pa.string()),
            ("decided_at", TIMESTAMP),
            ("commit_seq", pa.int64()),
        ]
    ),
    ("transactional_id", "slot"),
    ("epoch", "nonce", "state", "ranges", "requests", "notes", "decided_at"),
)
REMEMBERED: Final = 5
#: The offsets of each request are kept only for transactions with at most so many requests.
MOST_REQUESTS: Final = 1000

Kept = Literal["aborted", "forgotten", "unknown"]


class Stored(msgspec.Struct, frozen=True, array_like=True):
    """The offsets of records in a topic."""

    topic: str
    topic_id: str
    ranges: tuple[OffsetRange, ...]


class _Complete(Stored, frozen=True, array_like=True):
    """Stored ranges with a `version` of the table that has them all; None if the topic was gone by then."""

    version: int | None


class Committed(msgspec.Struct, frozen=True):
    """The answer to a commit, the same for every repeat.

    `ranges` has an entry for each topic; `requests` for each request in order of arrival, None if there were too many.
    `notes` are the caller's additions, such as offsets of groups. `version` is the highest version that the
    transactional id had committed by then.
    """

    key: TransactionKey
    ranges: tuple[Stored, ...]
    requests: tuple[Stored, ...] | None
    notes: Any
    decided_at_ms: int
    version: int | None = None


class _Version(msgspec.Struct):
    version: int


class _Versioned(_Version):
    """The stored form of notes with a version."""

    notes: Any


_decode_version = msgspec.json.Decoder(_Version).decode
_decode_versioned = msgspec.json.Decoder(_Versioned).decode
_decode_stored = msgspec.json.Decoder(tuple[Stored, ...]).decode


def merge_ranges(requests: Iterable[Stored]) -> tuple[Stored, ...]:
    """Merge a transaction's ranges by topic: one dense range per partition, because a transaction is one unit."""
    found: dict[tuple[str, str], dict[int, OffsetRange]] = {}
    for each in requests:
        known = found.setdefault((each.topic, each.topic_id), {})
        for given in each.ranges:
            before = known.get(given.partition, OffsetRange(given.partition, given.base_offset, 0))
            known[given.partition] = OffsetRange(given.partition, before.base_offset, before.count + given.count)
    return tuple(Stored(*topic, tuple(known[at] for at in sorted(known))) for topic, known in found.items())


def row_of(committed: Committed) -> Row:
    key, requests = committed.key, committed.requests
    notes = committed.notes if committed.version is None else _Versioned(committed.version, committed.notes)
    texts = [_json(committed.ranges), None if requests is None else _json(requests), _json(notes)]
    slot = key.epoch % REMEMBERED
    return key.transactional_id, slot, key.epoch, key.nonce, "committed", *texts, committed.decided_at_ms


def stored_in(row: Row) -> tuple[Stored, ...]:
    return _decode_stored(row[5])


def complete(row: Row, versions: Sequence[int | None]) -> Row:
    """The row completed with the version of each table that has the records."""
    named = [
        _Complete(each.topic, each.topic_id, each.ranges, version)
        for each, version in zip(stored_in(row), versions, strict=True)
    ]
    return *row[:4], "complete", _json(named), *row[6:]


def tombstone(transactional_id: str, slot: int) -> Row:
    return transactional_id, slot, None, None, None, None, None, None, None


class Decisions:
    """The remembered decisions, as rows by transactional id and slot.

    Lookups of one transactional id need no lock: its entry is replaced, never changed. The caller must hold a lock to
    store something, or to iterate over all.
    """

    def __init__(self, rows: Sequence[Row] = ()) -> None:
        self._rows: dict[str, dict[int, Row]] = {}
        for row in rows:
            self.replay(row)

    def replay(self, row: Row) -> None:
        """Apply a stored row."""
        self._rows[row[0]] = {**self._rows.get(row[0], {}), row[1]: row}

    def row(self, key: TransactionKey) -> Row | None:
        """The row of a decision; None if another one has its slot by now."""
        row = self._rows.get(key.transactional_id, {}).get(key.epoch % REMEMBERED)
        return row if row is not None and (row[2], row[3]) == (key.epoch, key.nonce) else None

    def has(self, row: Row) -> bool:
        """Check that the row's transaction still has its slot."""
        known = self._rows.get(row[0], {}).get(row[1])
        return known is not None and known[2:4] == row[2:4]

    def incomplete(self) -> list[TransactionKey]:
        """Committed transactions whose rows do not name the tables' versions yet."""
        return [
            TransactionKey(name, row[2], row[3])
            for name, slots in self._rows.items()
            for row in slots.values()
            if row[4] == "committed"
        ]

    def epoch(self, transactional_id: str) -> int:
        """The highest known epoch; −1 if there is none."""
        return max((row[2] for row in self._rows.get(transactional_id, {}).values()), default=-1)

    def version(self, transactional_id: str) -> int | None:
        """The highest committed version; None if there is none."""
        highest = max((_version_of(row) for row in self._rows.get(transactional_id, {}).values()), default=-1)
        return None if highest < 0 else highest

    def timed_out(self, key: TransactionKey) -> bool:
        """True if the transaction is known to have timed out."""
        row = self._rows.get(key.transactional_id, {}).get(_overtime_slot(key))
        return row is not None and (row[2], row[3]) == (key.epoch, key.nonce)

    def overtime_rows(self, keys: Iterable[TransactionKey], now_ms: int) -> list[Row]:
        """Rows to store for transactions that timed out. Like every row they include the version."""
        rows: dict[tuple[str, int], Row] = {}
        for key in keys:
            name, slot = place = key.transactional_id, _overtime_slot(key)
            known = rows.get(place) or self._rows.get(name, {}).get(slot)
            if known is None or not is_later(known[2], key.epoch):
                version = self.version(name)
                notes = _json([] if version is None else _Versioned(version, []))
                rows[place] = (name, slot, key.epoch, key.nonce, "timed_out", _json([]), None, notes, now_ms)
        return list(rows.values())

    def what(self, key: TransactionKey, opened: int, kept_since_ms: int) -> Kept:
        """The known outcome of a transaction that is neither open nor committed.

        `opened` is the highest epoch of its transactional id, −1 if unknown.
        """
        row = self._rows.get(key.transactional_id, {}).get(key.epoch % REMEMBERED)
        if key.begun_ms <= kept_since_ms or (row is not None and is_later(row[2], key.epoch)):
            return "forgotten"
        opened = max(opened, self.epoch(key.transactional_id))
        never = (row is not None and row[2] == key.epoch) or (key.epoch > opened >= 0)
        return "unknown" if never else "aborted"

    def committed(self, key: TransactionKey) -> Committed | None:
        """The answer to a committed transaction; None if it is not known as committed."""
        row = self.row(key)
        if row is None:
            return None
        _, _, _, _, _, ranges, requests, notes, decided_at_ms = row
        told = None if requests is None else _decode_stored(requests)
        version = None
        if _has_version(notes):
            kept = _decode_versioned(notes)
            notes, version = kept.notes, kept.version
        else:
            notes = msgspec.json.decode(notes)
        return Committed(key, _decode_stored(ranges), told, notes, decided_at_ms, version)

    def silent(self, since_ms: int) -> list[Row]:
        """Tombstones for the rows of transactional ids that were idle since then; the row with the version stays."""
        found: list[Row] = []
        for name, slots in self._rows.items():
            if all(row[8] < since_ms for row in slots.values()):
                newest = max(slots, key=lambda slot: (_version_of(slots[slot]), slots[slot][2]))
                kept = None if self.version(name) is None else newest
                found += [tombstone(name, slot) for slot in slots if slot != kept]
        return found

    def forget(self, tombstones: Sequence[Row]) -> None:
        for row in tombstones:
            slots = {slot: kept for slot, kept in self._rows.get(row[0], {}).items() if slot != row[1]}
            if slots:
                self._rows[row[0]] = slots
            else:
                self._rows.pop(row[0], None)

    def __len__(self) -> int:
        return len(self._rows)


def _overtime_slot(key: TransactionKey) -> int:
    return REMEMBERED + key.epoch % REMEMBERED


def _version_of(row: Row) -> int:
    """The row's version; −1 if it has none."""
    return _decode_version(row[7]).version if _has_version(row[7]) else -1


def _has_version(notes: str) -> bool:
    """True if notes include a version: notes without one are a JSON list."""
    return notes.startswith("{")


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()
