"""Files of which no log says to which table they belong: it was lost, or not all of a deleted topic went.

Of a topic that was never made a crash leaves none.
"""

from __future__ import annotations

from delta_log.model.errors import LakelogError
from delta_log.stores import Store
from delta_log.topics.catalog import TOPICS, Catalog


def has_files(store: Store, directory: str) -> bool:
    return any(entry.name != "_delta_log" for entry in store.list(directory))


def names_without_log(store: Store, catalog: Catalog) -> list[str]:
    """Of those that are a topic's, if there is one."""
    names = [entry.name for entry in store.list(TOPICS) if entry.is_directory]
    return [name for name in names if has_files(store, f"{TOPICS}/{name}") and not _has_log(catalog, name)]


def _has_log(catalog: Catalog, name: str) -> bool:
    """One that cannot be read is one."""
    try:
        return catalog.find(name) is not None
    except LakelogError:
        return True
