"""An unreadable newest entry of a table is emptied, when nobody can append behind it as though it were whole.

    [N cannot be read]  →  [N+1: of our epoch] [N+2: of its own again]  →  [N is empty]

A former owner of a bucket knows the entry as it was: his next commit would say that its records are there, and nobody
would take them from the journal any more. So he meets our epoch first, which ends his writing. The one behind it gives
the table back to the epoch that the journal's records are of. In a directory there is nobody to keep away.
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
    """PlanOutdated, and the entry is as it was, where somebody went on from it meanwhile."""
    if not place.locks:
        cure = _bar_owner(place.store, cure)
        at("repair.owner_barred")
    place.store.put(_path(cure, cure.version), _entry(place.store, cure.version, cure.epoch))
    at("repair.entry_written")


def _bar_owner(store: Store, cure: EmptyEntry) -> EmptyEntry:
    """The cure as it is when he can do nothing more to the table."""
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
    """One that says nothing but whose the table is."""
    info = CommitInfo(f"repair-{uuid.uuid4().hex}", store.now_ms(), REPAIR, read_version=version - 1)
    actions: list[Action] = [info] if epoch is None else [info, Txn(EPOCH_TXN, epoch)]
    return encode_commit(actions)
