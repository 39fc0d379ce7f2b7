"""Resource limits of transactions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

_MIB: Final = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Bounds:
    """Limits of transactions. Beyond `memory_bytes`, a transaction's records are in a file until it is decided."""

    timeout_ms: int = 60_000
    most_timeout_ms: int = 900_000
    most_bytes: int = 128 * _MIB
    most_parts: int = 100_000
    memory_bytes: int = _MIB
    most_open: int = 1000
    total_bytes: int = 1024 * _MIB
    expiration_ms: int = 604_800_000
