"""A line that says how far something is stays on its line, however narrow the terminal is.

Each of them is drawn anew over the one before, and what reached the next line would stay there.
"""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import termios
from collections.abc import Callable
from typing import IO

import pytest

from jobs.foundation import progress as jobs_progress
from lakelog.cli.kit.progress import Progress, show_progress
from lakelog.cli.kit.verbs import Watching

#: A form that turns the line into what was drawn, without what moves the cursor.
DRAWN = re.compile(r"[^\r\x1b]+")


def bar(out: IO[str]) -> None:
    times = iter([0.0, *(9.0 + step for step in range(3))])
    progress = Progress(20_000_000_000, out, lambda: next(times))
    for step in range(3):
        progress.tell(9_876_543_210 + step, 123_456_789)
    progress.end()


def verb(out: IO[str]) -> None:
    with Watching(out) as watching:
        watching.say("12 of 1234 files, 1,234,567 of 123,456,789 bytes: topics/orders/" + "x" * 300)


def job(out: IO[str]) -> None:
    progress = jobs_progress.Progress(out)  # pyright: ignore[reportArgumentType] - any stream of text
    progress.show("compaction: orders (1 of 2) " + "x" * 300)
    progress.wipe()


@pytest.mark.parametrize("draw", [bar, verb, job])
@pytest.mark.parametrize("columns", [0, 40, 80, 200])
def test_a_line_is_narrower_than_the_terminal(draw: Callable[[IO[str]], None], columns: int):
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    with os.fdopen(theirs, "w", encoding="utf-8") as out:
        draw(out)
        shown = os.read(ours, 65536).decode()
    os.close(ours)
    drawn = DRAWN.findall(shown.replace("\x1b[K", ""))
    assert max(map(len, drawn)) == (columns or 80) - 1 or (columns == 200 and draw is bar)
    assert all(len(line) < (columns or 80) for line in drawn)


@pytest.mark.parametrize("total", [0, 1_000])
def test_what_there_is_room_for_comes_first(total: int):
    whole = show_progress(500, total, 12, 1.0, 200)
    assert show_progress(500, total, 12, 1.0, len(whole)) == whole
    assert "12 records" in show_progress(500, total, 12, 1.0, 40)
    for room in range(1, len(whole)):
        assert len(show_progress(500, total, 12, 1.0, room)) <= room
