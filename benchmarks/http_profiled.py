"""`lakelog serve` with a profiler: `python -m benchmarks.http_profiled FILE [option of serve ...]`.

SIGUSR1 starts profiling and SIGUSR1 again ends it; then FILE has what the thread of the event loop did, for `pstats`,
and FILE.threads the CPU seconds of each thread as JSON. cProfile makes calls dearer than they are.
"""

from __future__ import annotations

import cProfile
import json
import os
import re
import signal
import sys
import threading
from collections import Counter
from pathlib import Path
from typing import Final

from lakelog.cli.main import main as lakelog

BEGUN: Final = ".begun"
THREADS: Final = ".threads"
_NATIVE: Final = "threads of libraries"
_USER, _SYSTEM = 11, 12


def main(arguments: list[str]) -> int:
    file, *options = arguments
    profiling = _Profiling(Path(file))
    signal.signal(signal.SIGUSR1, lambda *_: profiling.turn())
    return lakelog(["serve", *options])


class _Profiling:
    def __init__(self, file: Path) -> None:
        self._file = file
        self._profile: cProfile.Profile | None = None
        self._before: Counter[str] = Counter()

    def turn(self) -> None:
        """Begin, or end and tell."""
        if self._profile is None:
            self._before = cpu_by_thread()
            self._beside(BEGUN).touch()
            self._profile = cProfile.Profile()
            self._profile.enable()
            return
        self._profile.disable()
        spent = cpu_by_thread()
        spent.subtract(self._before)
        self._beside(THREADS).write_text(json.dumps(spent))
        self._profile.dump_stats(self._beside(".part"))
        self._profile = None
        self._beside(BEGUN).unlink()
        self._beside(".part").rename(self._file)

    def _beside(self, suffix: str) -> Path:
        return self._file.with_name(self._file.name + suffix)


def cpu_by_thread() -> Counter[str]:
    """CPU seconds of this process; threads of one pool count as one. Empty where the system does not tell."""
    names = {thread.native_id: re.sub(r"[-_]?\d+$", "", thread.name) for thread in threading.enumerate()}
    spent: Counter[str] = Counter()
    ticks = os.sysconf("SC_CLK_TCK")
    for task in Path("/proc/self/task").glob("*"):
        fields = (task / "stat").read_text().rpartition(")")[2].split()
        spent[names.get(int(task.name), _NATIVE)] += (int(fields[_USER]) + int(fields[_SYSTEM])) / ticks
    return spent


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
