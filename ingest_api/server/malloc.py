"""Keeps freed memory for the next requests, instead of asking the system for it each time.

The C library returns every freed block above 128 KiB to the system, and the kernel clears each page of a new block at
its first use: for large bodies and frames that is a fifth of their whole cost. The kept memory is bounded.
"""

from __future__ import annotations

import ctypes
from contextlib import suppress
from typing import Final

# Of <malloc.h>.
_TRIM_THRESHOLD: Final = -1
_TOP_PAD: Final = -2
_MMAP_THRESHOLD: Final = -3

#: Larger blocks, which hardly any request needs, are returned at once.
_LARGEST_KEPT: Final = 8 * 1024 * 1024
_MOST_KEPT: Final = 128 * 1024 * 1024
_STEP: Final = 16 * 1024 * 1024


def keep_freed_memory() -> None:
    """Configure malloc of this process, with glibc; no effect elsewhere."""
    with suppress(OSError, AttributeError):
        mallopt = ctypes.CDLL(None).mallopt
        for what, size in ((_MMAP_THRESHOLD, _LARGEST_KEPT), (_TRIM_THRESHOLD, _MOST_KEPT), (_TOP_PAD, _STEP)):
            mallopt(what, size)
