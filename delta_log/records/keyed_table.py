"""Keyed tables: their columns, and the values that a row may have. Pure.

A keyed table (ledger) keeps the latest row of each key. A row has the whole content of its key; its place in the table,
`commit_seq`, only rises, and the row of a key with the highest place counts. A row whose content is all null is a
tombstone: the key is deleted. The table's properties name its key and content columns, so that a start can replay its
journal, and maintenance compact it, without knowing its user.

A row is a tuple of plain values in the order of the columns, without `commit_seq`. A time is in whole milliseconds
since 1970, as everywhere; the table holds microseconds.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any, Final

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from delta_log.model.errors import InvalidRequest, TopicClosed
from delta_log.model.names import check_topic_name, is_internal
from delta_log.model.schema import TIMESTAMP, arrow_schema
from delta_log.model.types import LATEST_MS

COMMIT_SEQ: Final = "commit_seq"
KEY: Final = "lakelog.ledger.key"
CONTENT: Final = "lakelog.ledger.content"

Row = tuple[Any, ...]
Placed = tuple[int, Row]

_INT32: Final = Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)]
_INT64: Final = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
_MILLISECONDS: Final = Annotated[int, msgspec.Meta(ge=0, le=LATEST_MS)]
#: Types that every reader of Delta supports.
_VALUES: Final[dict[pa.DataType, Any]] = {
    pa.int32(): _INT32,
    pa.int64(): _INT64,
    pa.string(): str,
    pa.binary(): bytes,
    pa.bool_(): bool,
    TIMESTAMP: _MILLISECONDS,
}
_COLUMN = re.compile(r"[a-z][a-z0-9_]*")
_encode = msgspec.msgpack.Encoder().encode


class LedgerTable(msgspec.Struct, frozen=True):
    """Definition of a keyed table. Its name begins with `__`; the column `commit_seq` is in neither key nor content."""

    name: str
    schema: pa.Schema
    key: tuple[str, ...]
    content: tuple[str, ...]


def check_ledger_table(table: LedgerTable) -> None:
    """Refuse a definition that no table can have, or whose rows could look like tombstones."""
    check_topic_name(table.name, internal=True)
    fields = {field.name: field for field in table.schema}
    kinds = {name: field.type for name, field in fields.items()}
    columns = fields.keys() - {COMMIT_SEQ}
    named = len(fields) == len(table.schema) and all(map(_COLUMN.fullmatch, fields))
    said = columns.intersection(table.content)
    rules = (
        (not is_internal(table.name), "its name does not begin with '__'"),
        (not named, f"it cannot have the columns {table.schema.names}"),
        (kinds.get(COMMIT_SEQ) != pa.int64(), f"it has no column {COMMIT_SEQ} of int64"),
        (not set(kinds.values()) <= _VALUES.keys(), "it has a column of a type that not every reader of Delta knows"),
        (not table.key or not columns.issuperset(table.key), f"its key cannot be {table.key}"),
        (not said or said.intersection(table.key) or len(said) < len(table.content), "its content is no part of it"),
        (not all(fields[name].nullable for name in said), "its content is never null"),
    )
    for broken, rule in rules:
        if broken:
            raise InvalidRequest(f"{table.name} cannot be a table of a ledger: {rule}")


def ledger_properties(table: LedgerTable) -> dict[str, str]:
    return {KEY: ",".join(table.key), CONTENT: ",".join(table.content)}


def ledger_of(name: str, schema: str, properties: Mapping[str, str]) -> LedgerTable:
    """The definition in a table's properties; TopicClosed if they describe no keyed table."""
    try:
        key, content = properties[KEY].split(","), properties[CONTENT].split(",")
        table = LedgerTable(name, arrow_schema(schema), tuple(key), tuple(content))
        check_ledger_table(table)
    except (LookupError, ValueError, InvalidRequest) as error:
        raise TopicClosed(name, f"its table was not made by lakelog ({error})") from error
    return table


class RowCodec:
    """Rows of one table ⇄ bytes for the journal ⇄ Arrow for the table."""

    def __init__(self, table: LedgerTable) -> None:
        self.table = table
        fields = [field for field in table.schema if field.name != COMMIT_SEQ]
        names = [field.name for field in fields]
        self._kinds = {field.name: field.type for field in fields}
        self._key = [names.index(name) for name in table.key]
        self._content = [names.index(name) for name in table.content]
        types = [_VALUES[f.type] if f.name in table.key or not f.nullable else _VALUES[f.type] | None for f in fields]
        row: Any = tuple.__class_getitem__(tuple(types))
        self._one = msgspec.msgpack.Decoder(row)
        self._many: msgspec.msgpack.Decoder[list[Row]] = msgspec.msgpack.Decoder(list[row])

    def encode(self, index: int, row: Row) -> bytes:
        """Encode a row; InvalidRequest if the table cannot hold it, as it would fail after its acknowledgement."""
        try:
            data = _encode(row)
            self._one.decode(data)
        except (msgspec.ValidationError, TypeError, ValueError, OverflowError) as error:
            raise InvalidRequest(f"row {index} cannot be one of {self.table.name}: {error}") from error
        return data

    def decode(self, payload: bytes) -> list[Row]:
        """Decode the rows of a frame."""
        return self._many.decode(payload)

    def latest(self, rows: Iterable[Placed]) -> list[Placed]:
        """The last row of each key, in order, including tombstones."""
        found: dict[Row, Placed] = {}
        for placed in rows:
            key = tuple([placed[1][index] for index in self._key])
            found.pop(key, None)
            found[key] = placed
        return list(found.values())

    def is_tombstone(self, row: Row) -> bool:
        return all(row[index] is None for index in self._content)

    def to_batch(self, rows: Sequence[Placed]) -> pa.RecordBatch:
        columns: dict[str, Any] = dict(zip(self._kinds, zip(*(row for _, row in rows), strict=True), strict=True))
        for name, kind in self._kinds.items():
            if kind == TIMESTAMP:
                columns[name] = [None if value is None else value * 1000 for value in columns[name]]
        columns[COMMIT_SEQ] = [place for place, _ in rows]
        schema = self.table.schema
        return pa.RecordBatch.from_arrays([pa.array(columns[f.name], f.type) for f in schema], schema=schema)

    def from_table(self, rows: pa.Table) -> list[Placed]:
        """Convert the rows of files, in order."""
        columns: list[list[Any]] = []
        for name, kind in self._kinds.items():
            values: list[Any] = rows.column(name).cast(pa.int64() if kind == TIMESTAMP else kind).to_pylist()
            if kind == TIMESTAMP:
                values = [None if value is None else value // 1000 for value in values]
            columns.append(values)
        return list(zip(rows.column(COMMIT_SEQ).to_pylist(), zip(*columns, strict=True), strict=True))

    def surviving(self, rows: pa.Table, *, whole: bool) -> pa.Table:
        """The rows that a compaction of files keeps, in order: the last of each key.

        A tombstone is kept while an older row of its key may exist: it is dropped if `rows` are the `whole` table.
        """
        newest = rows.group_by(list(self.table.key)).aggregate([(COMMIT_SEQ, "max")])
        places = newest.column(f"{COMMIT_SEQ}_max").combine_chunks()
        keep = pc.is_in(rows.column(COMMIT_SEQ), options=pc.SetLookupOptions(value_set=places))
        if whole:
            said = [rows.column(name).is_valid() for name in self.table.content]
            alive = said[0]
            for column in said[1:]:
                alive = pc.or_(alive, column)
            keep = pc.and_(keep, alive)
        return rows.filter(keep)


def join_rows(rows: Sequence[bytes]) -> bytes:
    """The payload of a frame: the rows as one array of MessagePack."""
    count = len(rows)
    if count < 16:  # noqa: PLR2004 - what the format has one byte for
        head = bytes((0x90 | count,))
    elif count < 1 << 16:
        head = b"\xdc" + count.to_bytes(2, "big")
    else:
        head = b"\xdd" + count.to_bytes(4, "big")
    return head + b"".join(rows)
