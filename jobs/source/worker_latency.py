"""What an executor's Python does so that neither side waits for the other for nothing. Knows no rows.

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
    """Whatever has come over TCP so far, at once; only Linux can be told to."""
    at_once = getattr(socket, "TCP_QUICKACK", None)
    if at_once is None or not _OPEN.exists():
        return
    for number in [int(each.name) for each in _OPEN.iterdir()]:
        # The one that the list was read from is closed by now, and not every socket is one of TCP.
        with suppress(OSError):
            if stat.S_ISSOCK(os.fstat(number).st_mode):
                with socket.fromfd(number, socket.AF_INET, socket.SOCK_STREAM) as connection:
                    connection.setsockopt(socket.IPPROTO_TCP, at_once, 1)


class Prompt:
    """What Spark's processes are sent to work by, ahead of what it works on."""

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        acknowledge()


@cache
def spare_the_collector() -> None:
    """Behind every task Spark has garbage collected, which looks at all that was ever imported, each time anew."""
    gc.freeze()
