"""`python -m benchmarks`: measure the log on this machine, beside the machine itself.

Each benchmark runs in a fresh process and a fresh directory, which goes afterwards.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import textwrap
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

import msgspec

from benchmarks.catalogue import BENCHMARKS
from benchmarks.machine import describe_machine
from benchmarks.progress import Progress
from benchmarks.rows import Row, render, render_titles
from benchmarks.running import Failed, run_benchmark
from benchmarks.sizes import SIZES

#: /tmp may be memory, where a sync costs nothing; this is ignored by git and goes with `make clean`.
_DIRECTORY = Path(".cache")
#: How much longer it may take until a benchmark that starts Spark is taken for hung.
_WITH_A_JVM = 3


def main(arguments: Sequence[str]) -> int:
    args = _parse(arguments)
    if args.list:
        for name in BENCHMARKS:
            print(_describe(name))
        return 0
    args.dir.mkdir(parents=True, exist_ok=True)
    place = Path(tempfile.mkdtemp(prefix="benchmarks-", dir=args.dir)).absolute()
    try:
        rows, failures = _run(args.only or list(BENCHMARKS), args.size, place)
    except KeyboardInterrupt:
        return 130
    finally:
        shutil.rmtree(place, ignore_errors=True)
    lines = "".join(msgspec.json.encode(row).decode() + "\n" for row in rows)
    if args.json is None:
        print(f"\n{lines}", end="")
    else:
        args.json.write_text(lines, encoding="utf-8")
    for failure in failures:
        print(failure, file=sys.stderr)
    return 1 if failures else 0


def _parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="Measure the log on this machine.")
    parser.add_argument("--only", nargs="+", choices=BENCHMARKS, metavar="NAME", help="of --list, in this order")
    parser.add_argument(
        "--size", choices=SIZES, default="quick", help="full takes more than an hour; default: %(default)s"
    )
    parser.add_argument("--dir", type=Path, default=_DIRECTORY, help="on the disk to measure; default: %(default)s")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the JSON lines there instead of to the end")
    parser.add_argument("--list", action="store_true", help="say what each row means")
    return parser.parse_args(arguments)


def _describe(name: str) -> str:
    benchmark = BENCHMARKS[name]
    meaning = getattr(import_module(benchmark.module), benchmark.function).__doc__ or ""
    return f"{name}: {benchmark.summary}\n{textwrap.indent(textwrap.dedent('    ' + meaning), '    ')}"


def _run(names: Sequence[str], size: str, place: Path) -> tuple[list[Row], list[str]]:
    rows = [describe_machine(place)]
    failures: list[str] = []
    for fact, value in {**rows[0].params, "size": size}.items():
        print(f"{fact:12} {value}")
    print(f"\n{render_titles()}", flush=True)
    with Progress(len(names)) as progress:
        for name in names:
            progress.begin(name)
            directory = place / name
            directory.mkdir()
            try:
                patience = BENCHMARKS[name].patience * (_WITH_A_JVM if BENCHMARKS[name].spark else 1)
                most_seconds = SIZES[size].most_seconds * patience
                for row in run_benchmark(name, size, directory, most_seconds):
                    rows.append(row)
                    progress.print(render(row))
            except Failed as failure:
                failures.append(str(failure))
            shutil.rmtree(directory, ignore_errors=True)
    return rows, failures


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
