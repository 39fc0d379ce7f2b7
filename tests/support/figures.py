"""What a running server says of itself, and what the system says of its process."""

from __future__ import annotations

import os
import re
import time
from contextlib import suppress
from pathlib import Path

import httpx

from tests.support.serving import Server

_TICKS = os.sysconf("SC_CLK_TCK")
MIB = 1024 * 1024


def metric(server: Server, name: str) -> float:
    """One number without labels. Whoever asks is a connection himself."""
    text = httpx.get(f"{server.url}/metrics", timeout=30).text
    found = re.search(rf"^{name} (\S+)$", text, re.MULTILINE)
    assert found is not None, f"there is no metric {name}"
    return float(found[1])


def memory_of(server: Server) -> int:
    """What of the process is in memory, in bytes."""
    return _status(server, "VmRSS")


def most_memory_of(server: Server) -> int:
    """The most that there ever was of it."""
    return _status(server, "VmHWM")


def cpu_of(server: Server) -> float:
    """The seconds that it has worked."""
    fields = Path(f"/proc/{server.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def threads_of(server: Server) -> dict[int, tuple[float, float]]:
    """Of each of its threads, by its id: the seconds that it has worked, and those that it waited for a processor."""
    found: dict[int, tuple[float, float]] = {}
    for each in Path(f"/proc/{server.pid}/task").glob("*/schedstat"):
        with suppress(OSError):  # it has ended
            worked_ns, waited_ns, _ = map(int, each.read_text().split())
            found[int(each.parent.name)] = (worked_ns / 1e9, waited_ns / 1e9)
    return found


def work_of_others(server: Server) -> float:
    """The seconds that all processors have worked for neither the server nor this process."""
    user, nice, system, _idle, _disk, *more = map(int, Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9])
    return (user + nice + system + sum(more)) / _TICKS - cpu_of(server) - time.process_time()


def _status(server: Server, name: str) -> int:
    text = Path(f"/proc/{server.pid}/status").read_text()
    found = re.search(rf"^{name}:\s+(\d+) kB$", text, re.MULTILINE)
    assert found is not None
    return int(found[1]) * 1024
