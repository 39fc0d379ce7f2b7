"""Entries of keyed records, as whoever sifts them makes them."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa

from delta_log.maintenance.compaction.by_key import ENTRIES, leaving_offsets

#: Offset, key, value.
Row = tuple[int, bytes | None, bytes | None]


def entries(rows: Iterable[Row], *, dirty_from: int, tombstones_below: int = 0) -> pa.Table:
    keyed = [
        {"key": key, "offset": at, "dirty": at >= dirty_from, "fading": value is None and at < tombstones_below}
        for at, key, value in rows
        if key is not None
    ]
    return pa.Table.from_pylist(keyed, schema=ENTRIES)


def surviving_offsets(rows: Iterable[Row], *, dirty_from: int, tombstones_below: int = 0) -> list[int]:
    rows = list(rows)
    gone = set(leaving_offsets(entries(rows, dirty_from=dirty_from, tombstones_below=tombstones_below)).tolist())
    return [at for at, _, _ in rows if at not in gone]
