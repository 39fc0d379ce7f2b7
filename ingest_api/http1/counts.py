"""What happened on the wire, as plain numbers. Written by one loop, read by whoever makes metrics of them."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field


@dataclass(slots=True)
class WireCounts:
    """Since the server began, but for `open`."""

    open: int = 0
    accepted: int = 0
    requests: int = 0
    bytes_in: int = 0
    bytes_out: int = 0
    #: Requests and connections that were answered by the wire itself, by the reason of their fault.
    refused: Counter[str] = field(default_factory=Counter[str])
    #: Connections that the wire ended otherwise: idle, write_stall, unfinished, crowd, other_user.
    cut: Counter[str] = field(default_factory=Counter[str])
    #: Requests whose app failed.
    failed: int = 0
