"""Detects a takeover of the root by a later owner. Knows the names of the epoch files, not their content."""

from __future__ import annotations

from delta_log.stores import Store


def writer_path(epoch: int) -> str:
    return f"writers/{epoch:010d}.json"


def is_replaced(store: Store, epoch: int) -> bool:
    """True if a later epoch exists. The oldest files are deleted first: if the next file is gone, so is this one."""
    return store.stat(writer_path(epoch + 1)) is not None or store.stat(writer_path(epoch)) is None
