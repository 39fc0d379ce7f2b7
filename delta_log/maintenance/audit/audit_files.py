"""Verifies data files against what their table records about them.

Checked for each file: presence, size, checksums of every byte, row count, order, and the recorded bounds. Nothing is
changed. Any worker that reaches the store may do it, so orders and answers can be serialized.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from delta_log.delta.actions import order_column
from delta_log.delta.parquet import read_parts, time_bounds
from delta_log.maintenance.audit.continuity import Finding
from delta_log.model.errors import Corruption, LakelogError
from delta_log.model.schema import FILE_SCHEMA
from delta_log.model.types import DataFile
from delta_log.records.arrow_columns import strictly_rising
from delta_log.root.root import as_root
from delta_log.stores import Store


@dataclass(frozen=True, slots=True)
class AuditOrder:
    """Files to audit. In `dense` ones no offset may be missing."""

    root: str
    directory: str
    files: tuple[DataFile, ...]
    dense: bool
    #: every column, so that every page is read
    columns: tuple[str, ...] = tuple(FILE_SCHEMA.names)

    @property
    def size(self) -> int:
        return sum(file.size for file in self.files)


@dataclass(frozen=True, slots=True)
class AuditAnswer:
    """The findings, and the files that are missing: they may have left the table meanwhile."""

    order: AuditOrder
    findings: tuple[Finding, ...]
    missing: tuple[str, ...]


def audit_files(order: AuditOrder, *, store: Store | None = None) -> AuditAnswer:
    """Read all files of the order, page by page. Without `store`, from the store of the root that the order names."""
    place = store or as_root(order.root).store
    findings: list[Finding] = []
    missing: list[str] = []
    for file in order.files:
        try:
            findings += [Finding(file.path, what) for what in _look_into(place, order, file)]
        except FileNotFoundError:
            missing.append(file.path)
        except Corruption as error:
            findings.append(Finding(file.path, error.why))
        except (LakelogError, OSError) as error:
            findings.append(Finding(file.path, str(error)))
    return AuditAnswer(order, tuple(findings), tuple(missing))


def _look_into(store: Store, order: AuditOrder, file: DataFile) -> list[str]:
    path = f"{order.directory}/{file.path}"
    entry = store.stat(path)
    if entry is None:
        raise FileNotFoundError(path)
    wrong = [] if entry.size == file.size else [f"it has {entry.size} bytes, not {file.size}"]
    count, first, last = 0, -1, -1
    order_by = order_column(file.partition)
    for rows in read_parts(store, path, order.columns, entry.size, whole=True):
        if rows.num_rows == 0:
            continue
        offsets = rows.column(order_by).combine_chunks()
        begin, stop = int(offsets[0].as_py()), int(offsets[-1].as_py())
        if begin <= last or not strictly_rising(offsets):
            wrong.append(f"its offsets do not rise, from {begin} on")
        first, last, count = (first if count else begin), stop, count + rows.num_rows
        wrong += _check_times(rows, file) if file.partition >= 0 else []
    told = (file.count, file.base_offset, file.last_offset)
    if (count, first, last) != told:
        wrong.append(f"it has {count} rows, {first} to {last}; its table says {told[0]}, {told[1]} to {told[2]}")
    elif order.dense and count != last - first + 1:
        wrong.append(f"of the offsets {first} to {last} it has {count} alone")
    return wrong


def _check_times(rows: pa.Table, file: DataFile) -> list[str]:
    low, high = time_bounds(rows)
    if file.min_timestamp_ms <= low and high <= file.max_timestamp_ms:
        return []
    return [f"timestamps from {low} to {high}; its table says {file.min_timestamp_ms} to {file.max_timestamp_ms}"]
