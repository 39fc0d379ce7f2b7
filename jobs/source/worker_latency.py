"""Latency tuning of an executor's Python process, against unnecessary waits. Knows no rows.

    Spark ── what to run ──▶ │ held back until it is acknowledged │ ── which slice ──▶ this process

Spark writes to its Python processes over TCP in small parts, and the kernel sends a small part only when the one before
it is acknowledged, which the other side's kernel puts off by 40 ms if it is left to itself: once a task.
"""

from __future__ import annotations

import gc
import os
import socket
import stat
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, Final

_OPEN: Final = Path("/proc/self/fd")


def acknowledge() -> None:
    """Acknowledge all data received over TCP at once; only Linux supports that."""
    at_once = getattr(socket, "TCP_QUICKACK", None)
    if at_once is None or not _OPEN.exists():
        return
    for number in [int(each.name) for each in _OPEN.iterdir()]:
        # The descriptor of the listing itself is closed by now, and not every socket is TCP.
        with suppress(OSError):
            if stat.S_ISSOCK(os.fstat(number).st_mode):
                with socket.fromfd(number, socket.AF_INET, socket.SOCK_STREAM) as connection:
                    connection.setsockopt(socket.IPPROTO_TCP, at_once, 1)


class Prompt:
    """Base of readers and writers that Spark sends to its processes before their input: acknowledges when unpickled."""

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        acknowledge()


@cache
def spare_the_collector() -> None:
    """Exempt imported objects from garbage collection, which Spark runs after every task."""
    gc.freeze()
