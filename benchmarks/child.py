"""One benchmark in its own process: its rows as JSON lines on standard output."""

from __future__ import annotations

import logging
import sys
from importlib import import_module
from pathlib import Path

import msgspec

from benchmarks.catalogue import BENCHMARKS
from benchmarks.sizes import SIZES


def main(name: str, size: str, place: str) -> None:
    logging.basicConfig(level=logging.ERROR)
    benchmark = BENCHMARKS[name]
    run = getattr(import_module(benchmark.module), benchmark.function)
    for row in run(Path(place), SIZES[size]):
        sys.stdout.write(msgspec.json.encode(row).decode() + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
