"""Files without a table log: the log was lost, or a deleted topic was not removed completely.

A crash before a topic was created leaves no such files.
"""

from __future__ import annotations

from delta_log.model.errors import LakelogError
from delta_log.stores import Store
from delta_log.topics.catalog import TOPICS, Catalog


def has_files(store: Store, directory: str) -> bool:
    return any(entry.name != "_delta_log" for entry in store.list(directory))


def names_without_log(store: Store, catalog: Catalog) -> list[str]:
    """Names of topic folders that have files but no table log."""
    names = [entry.name for entry in store.list(TOPICS) if entry.is_directory]
    return [name for name in names if has_files(store, f"{TOPICS}/{name}") and not _has_log(catalog, name)]


def _has_log(catalog: Catalog, name: str) -> bool:
    """Check for a log. An unreadable log counts as one."""
    try:
        return catalog.find(name) is not None
    except LakelogError:
        return True
