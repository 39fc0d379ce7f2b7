"""Which processes come of which, and whether they run still: by /proc, as their programs do not say."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path


def parents() -> dict[int, int]:
    return {pid: int(fields[1]) for pid, fields in _all().items()}


def descendants(pid: int) -> set[int]:
    found, known = {pid}, parents()
    while more := {child for child, parent in known.items() if parent in found} - found:
        found |= more
    return found - {pid}


def running(pids: Iterable[int]) -> set[int]:
    """Who is dead and was not asked for by its parent does not run."""
    known = _all()
    return {pid for pid in pids if pid in known and known[pid][0] != b"Z"}


def command(pid: int) -> bytes:
    return _read(f"/proc/{pid}/cmdline")


def _all() -> dict[int, list[bytes]]:
    """Of each its state, its parent and what follows."""
    texts = {int(each.name): _read(str(each / "stat")) for each in Path("/proc").iterdir() if each.name.isdigit()}
    return {pid: text.rpartition(b") ")[2].split() for pid, text in texts.items() if text}


def _read(path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError:
        return b""
