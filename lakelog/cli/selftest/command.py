"""`lakelog selftest`: verifies on this machine that acknowledged records survive a kill.

A second process appends to a fresh log and is killed in the middle of it. Then the log is opened again, brought
into its tables and closed, and the rows as delta-rs reads them are compared with what was acknowledged.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Generator
from pathlib import Path
from typing import IO, cast

from lakelog.cli.kit.arguments import add_output
from lakelog.cli.kit.exit_codes import CALLED_WRONGLY, DONE, Failure
from lakelog.cli.kit.output import as_json

TOPIC = "selftest"
PARTITIONS = 4
#: Differences that an error names.
_NAMED = 20


def configure(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Append records in a second process, kill it with SIGKILL in the middle, recover, and compare the rows that "
        "delta-rs reads with the records that were acknowledged."
    )
    parser.add_argument("--records", type=_positive, default=1000, help="records to see acknowledged (default 1000)")
    parser.add_argument("--show", type=int, default=12, help="rows to print, -1 for all (default 12)")
    parser.add_argument(
        "--dir", type=Path, help="an empty or absent directory to use and keep (default: a temporary one)"
    )
    add_output(parser)


def run(args: argparse.Namespace) -> int:
    from delta_log import Log

    if args.dir is not None and args.dir.exists() and any(args.dir.iterdir()):
        raise Failure(f"{args.dir} is not empty", "name an empty or absent directory", exit_code=CALLED_WRONGLY)
    say = print if args.output == "text" else _say_nothing
    with _folder(args.dir) as root:
        say(f"1. A second process appends {args.records} records and more to a log in {root}", flush=True)
        acknowledged = _append_and_kill(root, args.records)
        say(f"2. It was killed (SIGKILL) after {len(acknowledged)} acknowledgements")
        with Log.open(root) as log:
            say(f"3. Opened again: {log.recovery}")
            location = log.table_location(TOPIC)
        rows = _rows(location)
        wrong = _differences(acknowledged, rows)
        if args.output == "json":
            print(as_json({"acknowledged": len(acknowledged), "rows": len(rows), "wrong": wrong}))
        else:
            print(f"4. The table as delta-rs reads it, {len(rows)} rows, {location}")
            _print_rows(rows, args.show)
        if wrong:
            raise Failure(f"{len(wrong)} records differ", "; ".join(wrong[:_NAMED]))
        say(f"All {len(acknowledged)} acknowledged records are there, each once, at its offset.")
        return DONE


def _say_nothing(*_: object, **__: object) -> None:
    """Drop text for people: the output is JSON."""


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("it must be 1 or more")
    return number


@contextlib.contextmanager
def _folder(chosen: Path | None) -> Generator[Path]:
    if chosen is not None:
        yield chosen.absolute()
        return
    made = Path(tempfile.mkdtemp(prefix="lakelog-selftest-"))
    try:
        yield made / "data"
    finally:
        shutil.rmtree(made, ignore_errors=True)


def _append_and_kill(root: Path, records: int) -> dict[tuple[int, int], str]:
    """Partition and offset of every record that the second process saw acknowledged, with its value."""
    acknowledged: dict[tuple[int, int], str] = {}
    command = [sys.executable, "-m", "lakelog.cli.selftest.writer", str(root)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as writer:  # noqa: S603 - a module of this package
        lines = cast("IO[str]", writer.stdout)
        try:
            for line in lines:
                partition, offset, value = json.loads(line)
                acknowledged[partition, offset] = value
                if len(acknowledged) >= records:
                    break
        finally:
            # Also after an interrupt: nothing may write to the folder while it is removed.
            writer.send_signal(signal.SIGKILL)
        acknowledged.update(_complete_lines(lines.read()))
    if len(acknowledged) < records:
        raise RuntimeError(f"the writing process ended with {writer.returncode} before it had appended enough")
    return acknowledged


def _complete_lines(rest: str) -> dict[tuple[int, int], str]:
    """Records in the rest of the pipe; the kill may have cut the last line."""
    found: dict[tuple[int, int], str] = {}
    for line in rest.splitlines(keepends=True):
        if line.endswith("\n"):
            partition, offset, value = json.loads(line)
            found[partition, offset] = value
    return found


def _rows(location: str) -> dict[tuple[int, int], list[str]]:
    from delta_log.fetch import sql as table_queries

    rows: dict[tuple[int, int], list[str]] = {}
    for row in table_queries.read_table(location, ("partition", "offset", "value")).to_pylist():
        rows.setdefault((row["partition"], row["offset"]), []).append(row["value"].decode())
    return rows


def _print_rows(rows: dict[tuple[int, int], list[str]], show: int) -> None:
    ordered = sorted(rows)
    shown = ordered if show < 0 else ordered[:show]
    print(f"   {'partition':>9}  {'offset':>8}  value")
    for partition, offset in shown:
        print(f"   {partition:>9}  {offset:>8}  {', '.join(rows[partition, offset])}")
    if len(shown) < len(ordered):
        print(f"   … and {len(ordered) - len(shown)} more")


def _differences(acknowledged: dict[tuple[int, int], str], rows: dict[tuple[int, int], list[str]]) -> list[str]:
    """Broken promises: an acknowledged record missing, changed or twice, or a gap between offsets."""
    wrong = [
        f"partition {place[0]} offset {place[1]}: acknowledged {value!r}, stored {rows.get(place, 'nothing')!r}"
        for place, value in sorted(acknowledged.items())
        if rows.get(place) != [value]
    ]
    for partition in range(PARTITIONS):
        offsets = sorted(offset for of, offset in rows if of == partition)
        if offsets != list(range(len(offsets))):
            wrong.append(f"partition {partition}: its offsets have gaps")
    values = [value for stored in rows.values() for value in stored]
    if len(values) != len(set(values)):
        wrong.append("a record is stored twice")
    return wrong
