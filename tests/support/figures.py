"""What a running server says of itself, and what the system says of its process."""

from __future__ import annotations

import os
import re
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


def _status(server: Server, name: str) -> int:
    text = Path(f"/proc/{server.pid}/status").read_text()
    found = re.search(rf"^{name}:\s+(\d+) kB$", text, re.MULTILINE)
    assert found is not None
    return int(found[1]) * 1024
