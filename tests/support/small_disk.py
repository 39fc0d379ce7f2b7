"""File systems of a test's own: a small one in memory that runs full, and one in a file, of which a copy can be taken.

Both are mounted, which only root may do, as the build does. Who is not root is told so.
"""

from __future__ import annotations

import errno
import os
import subprocess
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.serving import wait_for

_PART = 64 * 1024


@contextmanager
def mounted(place: Path, *arguments: str | Path) -> Generator[Path]:
    """`mount ARGUMENTS place` for the length of a block."""
    if os.geteuid() != 0:
        pytest.skip("only root may mount a file system: run this test as root")
    place.mkdir(exist_ok=True)
    subprocess.run(["mount", *map(str, arguments), str(place)], check=True, timeout=60)
    try:
        yield place
    finally:
        wait_for(lambda: _unmount(place), "that nobody has a file of it open any more")


def _unmount(place: Path) -> bool:
    """What has just ended may still be about to close its files."""
    return subprocess.run(["umount", str(place)], check=False, capture_output=True, timeout=60).returncode == 0


@contextmanager
def small_disk(place: Path, *, megabytes: int) -> Generator[Path]:
    """Nothing of it outlives the block."""
    with mounted(place, "-t", "tmpfs", "-o", f"size={megabytes}m", "tmpfs"):
        yield place


@contextmanager
def small_ext4(place: Path, *, megabytes: int) -> Generator[Path]:
    """The same in a file: with blocks, and directories that need some."""
    image = place.with_suffix(".img")
    with image.open("wb") as file:
        file.truncate(megabytes * 1024 * 1024)
    subprocess.run(["mke2fs", "-q", "-t", "ext4", str(image)], check=True, timeout=30)
    with mounted(place, "-o", "loop", image):
        yield place


def fill(disk: Path) -> Path:
    """Take all the room that is left; whoever deletes the file gives it back."""
    ballast = disk / "ballast"
    with ballast.open("ab", buffering=0) as file:
        for size in (_PART, 4096, 512):
            try:
                while True:
                    file.write(b"x" * size)
            except OSError as error:
                if error.errno != errno.ENOSPC:
                    raise
    return ballast
