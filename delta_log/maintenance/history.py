"""Keeps a table quick to open: checkpoints, a short log, and no unreachable files.

History is kept for `history.ms` or the newest `history.commits`, whichever is shorter: that limits time travel, and how
far a Delta stream may fall behind.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from delta_log.delta.checkpoint import log_versions
from delta_log.delta.snapshot import Snapshot
from delta_log.delta.table import Table
from delta_log.runtime.gil import yield_gil
from delta_log.runtime.syscalls import Probe, no_probe
from delta_log.topics.topic_state import TopicState

CHECKPOINT_EVERY: Final = 100
#: A base offset, then the epoch of the owner that wrote the file; files of jobs have a name in place of the epoch.
OWNERS_FILE: Final = re.compile(r"\d{20}-(?P<epoch>\d+)-.+\.parquet")


def is_checkpoint_due(table: Table) -> bool:
    return table.snapshot.version - table.checkpoint_version >= CHECKPOINT_EVERY


def is_tail_long(table: Table) -> bool:
    """Tell the owner to write a checkpoint early: while it is written, a few more commits are made."""
    return table.snapshot.version - table.checkpoint_version >= CHECKPOINT_EVERY - CHECKPOINT_EVERY // 10


def clean_history(live: TopicState, now_ms: int, probe: Probe = no_probe) -> int:
    """Delete log entries and replaced files beyond the history; returns how many files went.

    However short the history is, a file stays for `file.delete.delay.ms` after it left the table.
    """
    table, config = live.table, live.config
    oldest_kept = table.snapshot.version - config.history_commits
    before_ms = now_ms - config.history_ms
    gone = _delete_removed(table, before_ms, oldest_kept, now_ms - config.file_delete_delay_ms)
    probe("cleanup.files_deleted")
    return gone + _shorten_log(table, before_ms, oldest_kept, probe)


def _delete_removed(table: Table, before_ms: int, before_version: int, delayed_ms: int) -> int:
    """Delete tombstoned files beyond the history from the store, then from the snapshot."""
    with table.lock:
        due = removed_beyond(table.snapshot, before_ms, before_version, delayed_ms)
    for path in due:
        table.store.delete(table.path(path))
    with table.lock:
        table.snapshot.forget_removed(due)
    return len(due)


def removed_beyond(snapshot: Snapshot, before_ms: int, before_version: int, delayed_ms: int) -> list[str]:
    """The files that left the table before the history begins, and surely before `delayed_ms`."""
    return [
        path
        for path, (tombstone, version) in snapshot.removed.items()
        if (tombstone.deleted_ms < before_ms or version < before_version) and tombstone.deleted_ms <= delayed_ms
    ]


def _shorten_log(table: Table, before_ms: int, before_version: int, probe: Probe) -> int:
    """Delete the oldest entries first, in listing order, so that a crash in between leaves a log without a gap."""
    doomed = entries_beyond(table, before_ms, before_version)
    for path in doomed:
        table.store.delete(table.path(path))
        probe("cleanup.entry_deleted")
    return len(doomed)


def entries_beyond(table: Table, before_ms: int, before_version: int) -> list[str]:
    """Log entries before the newest checkpoint that still covers the whole history.

    Includes every file named by a version: entries, checkpoints, other writers' checksums.
    """
    horizon, checkpoints, numbered = before_version, list[int](), list[tuple[int, str]]()
    for entry in yield_gil(table.store.list(table.path("_delta_log"))):
        if not entry.name[:20].isdecimal():
            continue
        numbered.append((int(entry.name[:20]), entry.name))
        if entry.modified_ms < before_ms:
            horizon = max([horizon, *log_versions([entry.name], ".json")])
        checkpoints += log_versions([entry.name], ".checkpoint.parquet")
    keep_from = max(
        (version for version in checkpoints if version <= min(horizon, table.checkpoint_version)), default=-1
    )
    return [f"_delta_log/{name}" for version, name in numbered if version < keep_from]


def delete_orphans(live: TopicState, epoch: int) -> list[str]:
    """Delete data files of earlier owners that no commit names: left by a crash between writing a file and its commit.

    Safe once this process owns the table: an earlier owner's commit can no longer succeed, and files of jobs and of
    this owner are recognized by their names and left alone.
    """
    table = live.table
    deleted: list[str] = []
    if not live.owned:
        return deleted
    for path, name in _data_files(live):
        if _is_orphan(table.snapshot, path, name, epoch):
            table.store.delete(table.path(path))
            deleted.append(path)
    return deleted


def _data_files(live: TopicState) -> Iterator[tuple[str, str]]:
    """Paths and names of data files: in the folders of partitions, or directly in the folder of an internal table."""
    table = live.table
    for entry in table.store.list(table.directory):
        if live.internal and not entry.is_directory:
            yield entry.name, entry.name
        elif not live.internal and entry.is_directory and entry.name.startswith("partition="):
            for file in table.store.list(table.path(entry.name)):
                yield f"{entry.name}/{file.name}", file.name


def _is_orphan(snapshot: Snapshot, path: str, name: str, epoch: int) -> bool:
    if snapshot.has_file(path) or path in snapshot.removed:
        return False
    named = OWNERS_FILE.fullmatch(name)
    return named is not None and int(named["epoch"]) < epoch
