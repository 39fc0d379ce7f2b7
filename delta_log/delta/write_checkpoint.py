"""Writes checkpoints: the current state of a table, so that readers need not replay all commits before."""

from __future__ import annotations

import msgspec

from delta_log.delta.checkpoint import checkpoint_path, checkpoint_pieces, encode_pieces
from delta_log.delta.table import Table
from delta_log.runtime.gil import yield_gil
from delta_log.runtime.syscalls import Probe, no_probe


def write_checkpoint(table: Table, probe: Probe = no_probe) -> int:
    """Write a checkpoint of the current state; returns its version."""
    with table.checkpointing:
        with table.lock:
            version = table.snapshot.version
            if version == table.checkpoint_version:
                return version
            frozen = table.snapshot.copy()
        data, size = encode_pieces(list(yield_gil(checkpoint_pieces(frozen))))
        table.store.put(table.path(checkpoint_path(version)), data)
        probe("checkpoint.written")
        hint = msgspec.json.encode({"version": version, "size": size})
        table.store.put(table.path("_delta_log/_last_checkpoint"), hint)
        table.checkpoint_version = max(table.checkpoint_version, version)
        return version
