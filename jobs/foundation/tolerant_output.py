"""Output that must not fail a job: a full disk is tolerated, a closed pipe is not.

A log on the same disk fills up with the data, and the work that would make room is a job. If the reader of the output
is gone, as with `head`, BrokenPipeError is raised unchanged.
"""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TextIO

__all__ = ["write_if_room"]


def write_if_room(stream: TextIO, text: str) -> OSError | None:
    """Write a text; returns an error, if any, after which no part of the text is written later."""
    try:
        stream.write(text)
        stream.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        _drop_unwritten(stream)
        return error
    return None


def _drop_unwritten(stream: TextIO) -> None:
    """Discard buffered text, which would fail again with each further line, and when the program ends."""
    with suppress(OSError):
        there = stream.fileno()
        kept = os.dup(there)
        nowhere = os.open(os.devnull, os.O_WRONLY)
        try:
            os.dup2(nowhere, there)
            with suppress(OSError):
                stream.flush()
        finally:
            os.dup2(kept, there)
            os.close(kept)
            os.close(nowhere)
