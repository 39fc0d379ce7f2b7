"""A line on a terminal that shows the progress of a command; without a terminal there is none."""

from __future__ import annotations

import os
from collections.abc import Callable
from time import monotonic
from typing import IO, Final

__all__ = ["Progress", "room_on", "show_progress", "show_rate", "show_size"]

_EVERY_S: Final = 0.2
_WIDTH: Final = 30
#: Width of a terminal of unknown width.
_USUAL: Final = 80
_KILO: Final = 1000.0


def show_size(count: float) -> str:
    """Format a number of bytes for people."""
    for unit in ("B", "kB", "MB", "GB"):
        if count < _KILO:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= _KILO
    return f"{count:.1f} TB"


def show_rate(records: int, size: int, seconds: float) -> str:
    took = max(seconds, 1e-6)
    return f"{records / took:,.0f} records/s, {size / took / 1e6:.1f} MB/s"


def room_on(out: IO[str]) -> int:
    """Width of the terminal without its last column, after which the cursor would move to the next line."""
    try:
        width = os.get_terminal_size(out.fileno()).columns
    except (OSError, ValueError):
        width = 0
    return (width or _USUAL) - 1


def show_progress(done: int, total: int, records: int, seconds: float, room: int) -> str:
    """Format the progress, at most `room` characters long. `total` is 0 if unknown."""
    said = f"{records:,} records  {show_size(done)}  {show_rate(records, done, seconds)}"
    if not total:
        return said[:room]
    part = min(1.0, done / total)
    said = f"{part:4.0%}  {said}"
    width = min(_WIDTH, room - len(said) - len("[] "))
    return f"[{'#' * round(part * width):{width}}] {said}" if width > 0 else said[:room]


class Progress:
    """Progress line, rewritten a few times a second if `out` is a terminal."""

    def __init__(self, total: int, out: IO[str], clock: Callable[[], float] = monotonic) -> None:
        self._total, self._out, self._clock = total, out, clock
        self._begun = self._told_at = clock()
        self._width = 0
        self.shown = out.isatty()

    @property
    def seconds(self) -> float:
        return self._clock() - self._begun

    def tell(self, done: int, records: int) -> None:
        now = self._clock()
        if not self.shown or now - self._told_at < _EVERY_S:
            return
        self._told_at = now
        line = show_progress(done, self._total, records, now - self._begun, room_on(self._out))
        self._out.write("\r" + line.ljust(self._width))
        self._out.flush()
        self._width = len(line)

    def end(self) -> None:
        """Clear the line."""
        if self._width:
            self._out.write("\r" + " " * self._width + "\r")
            self._out.flush()
            self._width = 0
