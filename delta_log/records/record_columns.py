"""Many records, held as columns. Pure.

The decoder of a large request has its columns, and a log stores columns: an object for each record in between would
cost more than either.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import repeat
from typing import Any, cast, overload

from delta_log.model.types import Header, Record

Contents = list[bytes | None]


class RecordColumns(Sequence[Record]):
    """A sequence of records. A column that is None is null in every record; any other has an entry for each record.

    Columns must not be changed once they are in here.
    """

    __slots__ = ("headers", "keys", "partitions", "timestamps", "values")

    def __init__(
        self,
        values: Contents,
        keys: Contents | None = None,
        timestamps: list[int | None] | None = None,
        headers: list[tuple[Header, ...] | None] | None = None,
        partitions: Sequence[int | None] | None = None,
    ) -> None:
        self.values = values
        self.keys = keys
        self.timestamps = timestamps
        self.headers = headers
        self.partitions: list[int | None] | None = partitions if partitions is None else list(partitions)

    @classmethod
    def of(cls, records: Sequence[Record]) -> RecordColumns:
        if isinstance(records, RecordColumns):
            return records
        return cls(
            [record.value for record in records],
            [record.key for record in records],
            [record.timestamp for record in records],
            [record.headers for record in records],
            [record.partition for record in records],
        )

    def __len__(self) -> int:
        return len(self.values)

    @overload
    def __getitem__(self, index: int) -> Record: ...
    @overload
    def __getitem__(self, index: slice) -> RecordColumns: ...
    def __getitem__(self, index: int | slice) -> Record | RecordColumns:
        cut: list[Any] = [None if column is None else column[index] for column in self._columns()]
        return Record(*cut) if isinstance(index, int) else RecordColumns(*cut)

    def __iter__(self) -> Iterator[Record]:
        rest: list[Iterable[Any]] = [repeat(None) if column is None else column for column in self._columns()[1:]]
        return map(Record, self.values, *rest)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sequence) or isinstance(other, str | bytes):
            return NotImplemented
        return list(self) == list(cast("Sequence[object]", other))

    __hash__ = None  # pyright: ignore[reportAssignmentType] - equal to lists, which have none either

    def __repr__(self) -> str:
        return f"RecordColumns({list(self)!r})"

    def _columns(self) -> tuple[list[Any], *tuple[list[Any] | None, ...]]:
        return self.values, self.keys, self.timestamps, self.headers, self.partitions
