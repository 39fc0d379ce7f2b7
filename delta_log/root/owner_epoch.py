"""Whether somebody else took a root since we did. Knows the files of the epochs, and nothing of what they say."""

from __future__ import annotations

from delta_log.stores import Store


def writer_path(epoch: int) -> str:
    return f"writers/{epoch:010d}.json"


def is_replaced(store: Store, epoch: int) -> bool:
    """Whether there was a later opening. The oldest files go first, so ours is gone where the next one is gone, too."""
    return store.stat(writer_path(epoch + 1)) is not None or store.stat(writer_path(epoch)) is None
