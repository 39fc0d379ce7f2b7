"""The streams of the process: its parent may have closed them, or their encoding may lack characters."""

from __future__ import annotations

import codecs
import io
import os
import sys
from typing import Final, TextIO

from lakelog.cli.kit.exit_codes import CALLED_WRONGLY, Failure

__all__ = ["prepare_streams", "standard_input"]

_ESCAPES: Final = "lakelog.escapes"
#: Python's default error handlers of its streams.
_DEFAULTS: Final = frozenset({"strict", "backslashreplace"})


def prepare_streams() -> None:
    """Prepare the streams: characters that an encoding lacks are written as JSON escapes."""
    if sys.stderr is None:  # pyright: ignore[reportUnnecessaryComparison] - it is, where it was closed
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115, PTH123 - until the end; help stays quick
    if sys.stdout is None:  # pyright: ignore[reportUnnecessaryComparison]
        cure = "leave it open, or send it to /dev/null"
        raise Failure("standard output is closed", cure, exit_code=CALLED_WRONGLY)
    codecs.register_error(_ESCAPES, _escaped)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper) and stream.errors in _DEFAULTS:
            stream.reconfigure(errors=_ESCAPES)


def standard_input() -> TextIO:
    if sys.stdin is None:  # pyright: ignore[reportUnnecessaryComparison]
        raise Failure("standard input is closed", "give it something to read", exit_code=CALLED_WRONGLY)
    return sys.stdin


def _escaped(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    units = error.object[error.start : error.end].encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at : at + 2].hex()}" for at in range(0, len(units), 2)), error.end
