"""Reads all rows of a file in parts, and verifies that they are those that its table's log names."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa

from delta_log.delta.parquet import read_parts
from delta_log.model.errors import Corruption
from delta_log.model.schema import ROW_GROUP
from delta_log.model.types import DataFile
from delta_log.records.arrow_columns import strictly_rising
from delta_log.stores import Store


def read_rows_of(
    store: Store, directory: str, file: DataFile, columns: Sequence[str], *, rows: int = ROW_GROUP
) -> Iterator[pa.Table]:
    """Read about `rows` at a time, never none; `columns` begin with the offset.

    Corruption if the offsets do not rise from the file's first to its last, or their number is wrong;
    FileNotFoundError, with the whole path, for a lost file.
    """
    path = f"{directory}/{file.path}"
    count, before = 0, file.base_offset - 1
    try:
        for part in read_parts(store, path, columns, file.size, rows=rows):
            if not part.num_rows:
                continue
            offsets = part.column("offset").combine_chunks()
            first, last = int(offsets[0].as_py()), int(offsets[-1].as_py())
            begins = first > before if count else first == file.base_offset
            if not begins or not strictly_rising(offsets):
                raise _wrong(path)
            count, before = count + part.num_rows, last
            yield part
    except FileNotFoundError as error:
        raise FileNotFoundError(path) from error
    if (count, before) != (file.count, file.last_offset):
        raise _wrong(path)


def _wrong(path: str) -> Corruption:
    return Corruption(path, "its rows are not those that the table's log names")
