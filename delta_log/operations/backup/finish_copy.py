"""Completes a copy: writes the tables' logs, and the rows that only the journal had.

This happens while the copy is closed, so that no process sees it half done; after a crash the next backup repeats it.
"""

from __future__ import annotations

from typing import Any, cast

import msgspec

from delta_log.delta.checkpoint import checkpoint_path, encode_checkpoint
from delta_log.delta.table import entry_path
from delta_log.model.errors import Corruption
from delta_log.operations.backup.point_in_time import Cut
from delta_log.operations.backup.target_root import CopiedRoot
from delta_log.operations.check.judge_log import HINT
from delta_log.operations.check.read_journal import read_if_there
from delta_log.operations.check.read_table import list_tables, open_live
from delta_log.root.root import ROOT_FILE, Root
from delta_log.runtime.syscalls import Probe
from delta_log.startup.open import Settings, start, stop
from delta_log.stores import Store
from delta_log.topics.catalog import TOPICS


def close_copy(place: Root) -> None:
    """Close a copy, so that no server can start on it until it is complete; RootInUse if one runs on it."""
    if read_if_there(place.store, ROOT_FILE) is not None:
        place.hold()
        try:
            place.store.delete(ROOT_FILE)
        finally:
            place.let_go()


def write_tables(target: Store, cut: Cut, at: Probe) -> None:
    """Write each table's log as one checkpoint with its entry, and delete the logs of an earlier copy."""
    kept = {table.name for table in cut.tables}
    for name in list_tables(target):
        target.delete_directory(f"{TOPICS}/{name}/_delta_log" if name in kept else f"{TOPICS}/{name}")
        at("backup.log_deleted")
    for table in cut.tables:
        state = table.state.branch()
        state.forget_removed(list(state.removed))
        data, size = encode_checkpoint(state)
        target.put(f"{table.directory}/{checkpoint_path(state.version)}", data)
        hint = msgspec.json.encode({"version": state.version, "size": size})
        target.put(f"{table.directory}/{entry_path(state.version)}", table.entry)
        target.put(f"{table.directory}/{HINT}", hint)
        at("backup.log_written")


def write_epoch(target: Store, epoch: int, defaults: dict[str, object]) -> None:
    for entry in target.list("writers"):
        target.delete(f"writers/{entry.name}")
    owner: dict[str, Any] = {"pid": 0, "host": "backup", "since_ms": target.now_ms(), "topic_defaults": defaults}
    target.put(f"writers/{epoch:010d}.json", msgspec.json.encode(owner))


def complete_copy(place: Root, cut: Cut, at: Probe) -> None:
    """Replay the rows that only the journal had in the copy, like a start, and stop: then all are in the tables."""
    settings = Settings(topic_defaults=cut.defaults, upkeep=False)
    running = start(cast("Root", CopiedRoot(place, cut.info, cut.journal)), settings)
    at("backup.replayed")
    closed = {live.name: live.closed for live in running.catalog.lives() if live.closed is not None}
    closed |= running.report.closed
    complete = stop(running)
    at("backup.stopped")
    for name, error in closed.items():
        cut.left_out.setdefault(name, str(error))
    if not complete and not closed:
        raise Corruption(place.store.location, "what the journal had could not be brought into the tables of the copy")


def delete_unnamed(target: Store, at: Probe) -> None:
    """Delete files that an earlier copy needed and this one does not."""
    for name in list_tables(target):
        live = open_live(target, name)
        if live is None:
            continue
        directories = [entry.name for entry in target.list(live.table.directory) if entry.is_directory]
        for directory in ["", *(each for each in directories if each.startswith("partition="))]:
            for entry in target.list(live.table.path(directory).rstrip("/")):
                path = f"{directory}/{entry.name}".lstrip("/")
                if not entry.is_directory and path.endswith(".parquet") and not live.table.snapshot.has_file(path):
                    target.delete(live.table.path(path))
                    at("backup.file_deleted")
