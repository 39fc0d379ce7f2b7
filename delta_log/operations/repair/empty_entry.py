"""Empties an unreadable newest entry of a table, after a former owner is kept from committing on top of it.

    [N is unreadable]  →  [N+1: the repair's epoch] [N+2: the table's own epoch again]  →  [N is empty]

A former owner of a bucket still knows the sound entry: its next commit would imply that the entry's records are in the
table, and no start would take them from the journal any more. So entry N+1 with the repair's epoch fences it first.
Entry N+2 gives the table back to the epoch of the journal's records. In a directory there is no former owner to fence.
"""

from __future__ import annotations

import uuid

from delta_log.delta.actions import Action, CommitInfo, Txn, encode_commit
from delta_log.delta.snapshot import EPOCH_TXN
from delta_log.delta.table import entry_path
from delta_log.model.errors import PlanOutdated
from delta_log.operations.backup.point_in_time import newest_epoch
from delta_log.operations.check.read_journal import load_journal
from delta_log.operations.check.read_table import look_at_table
from delta_log.operations.repair.actions import EmptyEntry
from delta_log.operations.repair.log_entries import REPAIR
from delta_log.operations.repair.plan import plan_empty_entry
from delta_log.root.root import Root
from delta_log.runtime.syscalls import Probe
from delta_log.stores import Store


def empty_entry(place: Root, cure: EmptyEntry, at: Probe) -> None:
    """Empty the entry; PlanOutdated, and nothing is changed in it, if another process has committed after it."""
    if not place.locks:
        cure = _bar_owner(place.store, cure)
        at("repair.owner_barred")
    place.store.put(_path(cure, cure.version), _entry(place.store, cure.version, cure.epoch))
    at("repair.entry_written")


def _bar_owner(store: Store, cure: EmptyEntry) -> EmptyEntry:
    """Fence the former owner; returns the cure as planned after that."""
    version = cure.newest + 1
    if not store.create(_path(cure, version), _entry(store, version, newest_epoch(store))):
        raise PlanOutdated(cure.directory, "its former owner wrote to it: stop that server, and repair again")
    version += 1
    while not store.create(_path(cure, version), _entry(store, version, cure.owner)):
        version += 1
    still = plan_empty_entry(store, look_at_table(store, cure.directory.rpartition("/")[2]), load_journal(store))
    if isinstance(still, str):
        raise PlanOutdated(cure.directory, still)
    return still


def _path(cure: EmptyEntry, version: int) -> str:
    return f"{cure.directory}/{entry_path(version)}"


def _entry(store: Store, version: int, epoch: int | None) -> bytes:
    """An entry with nothing but the owner's epoch."""
    info = CommitInfo(f"repair-{uuid.uuid4().hex}", store.now_ms(), REPAIR, read_version=version - 1)
    actions: list[Action] = [info] if epoch is None else [info, Txn(EPOCH_TXN, epoch)]
    return encode_commit(actions)
