"""Output of commands: rows as a table, as JSON lines or as CSV; one thing as text or JSON.

The output never depends on the reader: no colours, no width of a terminal. Pure, but for the stream that it writes to.
"""

from __future__ import annotations

import base64
import csv
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import chain, islice
from typing import IO, Any, Final, Protocol, cast

__all__ = [
    "FORMS",
    "WriteRows",
    "as_json",
    "as_time",
    "readable",
    "write_csv",
    "write_json",
    "write_rows",
    "write_table",
    "write_thing",
]

#: The first rows, which decide the width of a table's columns.
_LOOKED_AT: Final = 1_000
_WIDEST: Final = 80
_LEAST_RULE: Final = 3
#: Replacements that keep a cell on its line, and control characters from the terminal.
_ONE_LINE: Final = {code: f"\\x{code:02x}" for code in (*range(32), *range(127, 160))} | {
    ord("\n"): " ",
    ord("\t"): " ",
    ord("\r"): " ",
}

FORMS: Final = ("text", "json")


class WriteRows(Protocol):
    def __call__(self, names: Sequence[str], rows: Iterable[Sequence[Any]], out: IO[str], /) -> None: ...


def readable(value: Any) -> Any:
    """Convert a value for JSON: bytes become text if they are UTF-8."""
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError:
            return {"base64": base64.b64encode(value).decode()}
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, Mapping):
        return {name: readable(each) for name, each in cast("Mapping[str, Any]", value).items()}
    if isinstance(value, list | tuple):
        return [readable(each) for each in cast("Sequence[Any]", value)]
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)


def as_json(value: Any) -> str:
    return json.dumps(readable(value), ensure_ascii=False)


def as_time(milliseconds: int | None) -> str | None:
    """Format a time by ISO 8601, in UTC."""
    if milliseconds is None:
        return None
    seconds, rest = divmod(milliseconds, 1000)
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}.{rest:03d}Z"


def write_json(names: Sequence[str], rows: Iterable[Sequence[Any]], out: IO[str]) -> None:
    """Write rows as JSON, an object a line."""
    for row in rows:
        out.write(as_json(dict(zip(names, row, strict=True))) + "\n")


def write_csv(names: Sequence[str], rows: Iterable[Sequence[Any]], out: IO[str]) -> None:
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(names)
    writer.writerows([_cell(value) for value in row] for row in rows)


def write_table(names: Sequence[str], rows: Iterable[Sequence[Any]], out: IO[str]) -> None:
    cells = ([_cell(value).translate(_ONE_LINE) for value in row] for row in rows)
    looked_at = list(islice(cells, _LOOKED_AT))
    widths = [
        min(_WIDEST, max([len(name), _LEAST_RULE, *(len(row[place]) for row in looked_at)]))
        for place, name in enumerate(names)
    ]
    for line in _lines(names, widths, chain(looked_at, cells)):
        out.write(line)


def write_rows(form: str, names: Sequence[str], rows: Iterable[Sequence[Any]], out: IO[str]) -> None:
    """Write rows in one of `FORMS`."""
    (write_json if form == "json" else write_table)(names, rows, out)


def write_thing(form: str, thing: Mapping[str, Any], out: IO[str]) -> None:
    """Write one thing: a line for each fact, and a table for each list of facts; or one object of JSON."""
    if form == "json":
        out.write(as_json(thing) + "\n")
        return
    plain = {name: value for name, value in thing.items() if not _is_table(value)}
    width = max((len(name) for name in plain), default=0)
    for name, value in plain.items():
        out.write(f"{name:{width}}  {_cell(value).translate(_ONE_LINE)}".rstrip() + "\n")
    for name in (name for name in thing if name not in plain):
        facts = cast("Sequence[Mapping[str, Any]]", thing[name])
        out.write(f"\n{name}\n\n")
        write_table(list(facts[0]), (list(fact.values()) for fact in facts), out)


def _is_table(value: Any) -> bool:
    if not isinstance(value, list | tuple):
        return False
    facts = cast("Sequence[Any]", value)
    return bool(facts) and isinstance(facts[0], Mapping)


def _lines(names: Sequence[str], widths: Sequence[int], rows: Iterable[list[str]]) -> Iterator[str]:
    for row in chain([names, ["-" * width for width in widths]], rows):
        yield "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() + "\n"


def _cell(value: Any) -> str:
    shown = readable(value)
    if isinstance(shown, str):
        return shown
    return "" if shown is None else json.dumps(shown, ensure_ascii=False)
