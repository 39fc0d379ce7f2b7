"""What is said to people and programs, where there may be no room for it: that is no reason to leave work undone.

A log beside the data fills up with them, and what would make room is a job. Whoever read the output and went away, as
`head` does, is another matter: BrokenPipeError is raised as it is.
"""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TextIO

__all__ = ["write_if_room"]


def write_if_room(stream: TextIO, text: str) -> OSError | None:
    """What is in the way, if something is; then nothing of it is written later."""
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
    """Else it waits in the stream, and is refused again with each line that follows, and when the program ends."""
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
