"""Progress of a job as one line on a terminal; elsewhere nothing, so that logs stay readable."""

from __future__ import annotations

import os
import sys
from typing import Final, TextIO

__all__ = ["Progress"]

_CLEAR: Final = "\r\x1b[K"
#: Width of a terminal that does not report one.
_USUAL: Final = 80


class Progress:
    """A progress line, to be wiped before anything else is printed."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream or sys.stderr
        self._shows = self._stream.isatty()
        self._shown = False

    def show(self, line: str) -> None:
        if self._shows:
            self._stream.write(_CLEAR + line[: self._room()])
            self._stream.flush()
            self._shown = True

    def wipe(self) -> None:
        if self._shown:
            self._stream.write(_CLEAR)
            self._stream.flush()
            self._shown = False

    def _room(self) -> int:
        """Return the usable width, without the last column, after which the cursor would wrap."""
        try:
            width = os.get_terminal_size(self._stream.fileno()).columns
        except (OSError, ValueError):
            width = 0
        return (width or _USUAL) - 1
