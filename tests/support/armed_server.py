"""A program: `lakelog`, whose server dies as by kill -9 at the step whose name lies in a file.

    serving(root, program=armed(file))
    file.write_text("journal.synced")

Of several names it dies at the last, once it has passed the others one after the other: tables are written in the
background, and `journal.synced table.committed` waits for one that is committed behind the next request.

The steps are those of every log, and of a bucket two more: `object.before_put` and `object.put`, of its journal. What a
server stores of transactions by the way is left out, so that the next write is that of the next request.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from functools import partial
from pathlib import Path
from typing import Any

from delta_log import Log
from delta_log.stores.objects import ObjectStore
from delta_log.transactions.coordinator import Transactions
from lakelog.cli.main import main as lakelog


def armed(file: Path, script: Path = Path(__file__)) -> tuple[str, ...]:
    """The program; a `script` of another kind has to call `main`, too."""
    return sys.executable, str(script), str(file)


class Armed:
    """Called at each step."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._passed: list[str] = []
        self._lock = threading.Lock()

    def __call__(self, step: str) -> None:
        if not self._file.exists():
            return
        with self._lock:
            steps = self._file.read_text().split()
            if steps[len(self._passed) :][:1] == [step]:
                self._passed.append(step)
                if self._passed == steps:
                    os.kill(os.getpid(), signal.SIGKILL)


def main(file: str, *words: str) -> int:
    probe, create = Armed(Path(file)), ObjectStore.create

    def create_between(store: ObjectStore, path: str, data: Any) -> bool:
        if not path.startswith("journal/"):
            return create(store, path, data)
        probe("object.before_put")
        created = create(store, path, data)
        probe("object.put")
        return created

    Transactions.complete = lambda _: None  # type: ignore[method-assign]
    ObjectStore.create = create_between  # type: ignore[method-assign]
    Log.open = staticmethod(partial(Log.open, probe=probe))  # type: ignore[method-assign, assignment]
    return lakelog(words)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
