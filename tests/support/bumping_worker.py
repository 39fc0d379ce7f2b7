"""A process whose threads ask for new epochs until it is killed, and report each that they were given.

bumping_worker.py <root> <round> <step> <hit>     as `tests.support.killing` starts it; only the root matters
"""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Callable

from delta_log import Log, Settings

NAMES = ("one", "two")


def bump(log: Log, name: str) -> int:
    return log.init_producer(name).epoch


def ask(by: Callable[[Log, str], int], log: Log, name: str) -> None:
    while True:
        os.write(1, json.dumps(["bumped", name, by(log, name)]).encode() + b"\n")


def main(root: str, by: Callable[[Log, str], int] = bump) -> None:
    with Log.open(root, settings=Settings(upkeep=False, segment_bytes=64 * 1024)) as log:
        for name in (*NAMES, *NAMES):
            threading.Thread(target=ask, args=(by, log, name), daemon=True).start()
        sys.stdin.read(1)


if __name__ == "__main__":
    main(sys.argv[1])
