"""A program: `lakelog`, whose disk fails as a file says, for as long as it says so.

    serving(root, program=sick(file))
    fall_ill(file, "sync_data", "truncate", code=errno.EIO)
    recover(file)

The names are those of the calls of a disk. `stale` is one more: handles that are open then are never of use again, and
none can be opened meanwhile.
"""

from __future__ import annotations

import errno
import sys
from functools import partial
from pathlib import Path

from delta_log import Log
from lakelog.cli.main import main as lakelog
from tests.support.stale_disk import StaleDisk

STALE = "stale"


def sick(file: Path) -> tuple[str, ...]:
    return sys.executable, __file__, str(file)


def fall_ill(file: Path, *names: str, code: int) -> None:
    aside = file.with_name(f"{file.name}.new")
    aside.write_text(" ".join((errno.errorcode[code], *names)))
    aside.rename(file)


def recover(file: Path) -> None:
    file.unlink()


class ToldDisk(StaleDisk):
    """Looks at the file before each call."""

    def __init__(self, file: Path) -> None:
        super().__init__()
        self._file = file
        self._last = ""

    def open(self, path, flags):
        self._look()
        return super().open(path, flags)

    def _check(self, name, *, after=False):
        self._look()
        super()._check(name, after=after)

    def _check_handle(self, fd):
        self._look()
        super()._check_handle(fd)

    def _look(self) -> None:
        try:
            said = self._file.read_text()
        except FileNotFoundError:
            said = ""
        if said == self._last:
            return
        self._last = said
        self.mend()
        if said:
            code, *names = said.split()
            self.fail(*names, code=getattr(errno, code))
            if STALE in names:
                self.go_stale()


def main(file: str, *words: str) -> int:
    Log.open = staticmethod(partial(Log.open, disk=ToldDisk(Path(file))))  # type: ignore[method-assign, assignment]
    return lakelog(words)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
