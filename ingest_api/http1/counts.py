"""Counters of connections and requests, as plain numbers. Written by one event loop, read by the metrics."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field


@dataclass(slots=True)
class WireCounts:
    """Totals since the server started; `open` is the current number."""

    open: int = 0
    accepted: int = 0
    requests: int = 0
    bytes_in: int = 0
    bytes_out: int = 0
    #: Requests and connections that were refused before any app saw them, by the reason of their fault.
    refused: Counter[str] = field(default_factory=Counter[str])
    #: Connections ended by the server otherwise: idle, linger, write_stall, unfinished, crowd, other_user.
    cut: Counter[str] = field(default_factory=Counter[str])
    #: Requests whose app failed.
    failed: int = 0
