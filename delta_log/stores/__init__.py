"""Stores of named blobs: one protocol, and an implementation for each kind."""

from delta_log.stores.local import LocalStore
from delta_log.stores.memory import MemoryStore
from delta_log.stores.protocol import Entry, Store

__all__ = ["Entry", "LocalStore", "MemoryStore", "Store"]
