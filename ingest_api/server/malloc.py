"""Keeping the memory that requests use again and again, in place of asking the system for it each time.

The C library gives every freed block above 128 KiB back, and each page of a new one is cleared by the kernel when it is
first touched: for large bodies and frames that is a fifth of all they cost. What is kept is bounded.
"""

from __future__ import annotations

import ctypes
from contextlib import suppress
from typing import Final

# Of <malloc.h>.
_TRIM_THRESHOLD: Final = -1
_TOP_PAD: Final = -2
_MMAP_THRESHOLD: Final = -3

#: Larger blocks, which hardly any request has, are given back at once.
_LARGEST_KEPT: Final = 8 * 1024 * 1024
_MOST_KEPT: Final = 128 * 1024 * 1024
_STEP: Final = 16 * 1024 * 1024


def keep_freed_memory() -> None:
    """Of this process, with glibc; elsewhere nothing changes."""
    with suppress(OSError, AttributeError):
        mallopt = ctypes.CDLL(None).mallopt
        for what, size in ((_MMAP_THRESHOLD, _LARGEST_KEPT), (_TRIM_THRESHOLD, _MOST_KEPT), (_TOP_PAD, _STEP)):
            mallopt(what, size)
