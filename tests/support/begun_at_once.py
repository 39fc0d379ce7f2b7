"""Two threads need the source at once, at the worst moment: the second begins while the first has just begun.

Run in a process of its own; ends with 0 where both have what they wanted.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from importlib import _bootstrap, import_module  # type: ignore[attr-defined]
from importlib.machinery import SourceFileLoader
from types import ModuleType

FIRST, SECOND = "jobs.source.errors", "jobs.source.positions"


def begin_within(real: Callable[[SourceFileLoader, ModuleType], None], second: threading.Thread):
    def exec_module(self: SourceFileLoader, module: ModuleType) -> None:
        if module.__name__ == "jobs.source" and second.ident is None:
            second.start()
            while second.is_alive() and second.ident not in _bootstrap._blocking_on:
                time.sleep(0.001)
        real(self, module)

    return exec_module


def main() -> int:
    failed: list[BaseException] = []

    def load(name: str) -> None:
        try:
            import_module(name)
        except BaseException as error:  # noqa: BLE001 - told by the exit code
            failed.append(error)

    second = threading.Thread(target=load, args=(SECOND,))
    SourceFileLoader.exec_module = begin_within(SourceFileLoader.exec_module, second)  # type: ignore[method-assign]
    load(FIRST)
    second.join()
    sys.stderr.write(f"{failed}\n")
    return len(failed)


if __name__ == "__main__":
    sys.exit(main())
