"""`lakelog sql`: a query over the tables of topics, read where they lie, by DataFusion; no server and no JVM is needed.

It sees what is in the tables, a second or so behind the log.
"""

from __future__ import annotations

import argparse
import base64
import csv
import json
import os
import sys
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from itertools import chain, islice
from typing import IO, TYPE_CHECKING, Any, Final, cast

if TYPE_CHECKING:
    import pyarrow as pa


DEFAULT_DATA: Final = "./lakelog-data"
#: Columns of a table are as wide as they are in so many rows.
_LOOKED_AT: Final = 1_000
_WIDEST: Final = 80
_LEAST_RULE: Final = 3
#: Topics that an error names.
_NAMED: Final = 20
_EXAMPLES: Final = """
relations:
  TOPIC               the table of a topic; quote a name that is no plain word: "orders-eu"
  TOPIC_text          the same with key and value as text
  committed_offsets   what each group has committed last
  group_lag           how far each group is behind

examples:
  lakelog sql 'SELECT count(*) AS n FROM orders'
  lakelog sql 'SELECT key, value FROM orders_text ORDER BY "offset" DESC LIMIT 10'
  lakelog sql 'SELECT group_id, sum(lag) AS lag FROM group_lag GROUP BY group_id' --output json
"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.description = "Run a query over the tables of topics. It changes nothing, and needs no server."
    parser.epilog = _EXAMPLES
    parser.add_argument("query", help="the query, or - to read it from standard input")
    data = os.environ.get("LAKELOG_DATA", DEFAULT_DATA)
    parser.add_argument("--data", default=data, metavar="ROOT", help=f"where the log lies (default {data})")
    parser.add_argument("--output", choices=WRITERS, default="table", help="how to show the rows (default table)")
    parser.add_argument("--at", type=_moment, metavar="TIME", help="the tables as of a time, as 2026-01-31T12:00:00Z")


def run(args: argparse.Namespace) -> int:
    from delta_log import LogReader
    from delta_log.errors import InvalidRequest
    from delta_log.table_queries import NoSuchTable, TableQueries
    from lakelog.commands.sql_relations import COMMITTED, CONSUMER_OFFSETS, LAG, Table, plan_relations

    text = sys.stdin.read() if args.query == "-" else args.query
    queries = TableQueries()
    with LogReader.open(args.data) as log:
        topics = [name for name in log.topics() if not name.startswith("__")]
        try:
            for relation in plan_relations(text, topics):
                if isinstance(relation, Table):
                    queries.add_table(relation.name, f"{log.location}/topics/{relation.topic}", at=args.at)
                else:
                    queries.add_view(relation.name, relation.text)
            WRITERS[args.output](queries.query(text), sys.stdout)
        except NoSuchTable as error:
            known = ", ".join([*topics[:_NAMED], *(["…"] if len(topics) > _NAMED else ())]) or "none yet"
            raise InvalidRequest(
                f"there is no table {error.name}; the topics are: {known}; the views: {CONSUMER_OFFSETS}, {COMMITTED},"
                f" {LAG}, and a topic's name with _text"
            ) from None
    return 0


def _moment(text: str) -> datetime:
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is no time: write it as 2026-01-31T12:00:00Z") from None
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def _rows_of(batches: Iterator[pa.RecordBatch]) -> tuple[list[str], Iterator[list[Any]]]:
    """The names of the columns, and the rows as values that can be shown."""
    first = next(batches)
    rows = (
        [_shown(value) for value in row]
        for batch in batches
        for row in zip(*(column.to_pylist() for column in batch.columns), strict=True)
    )
    return first.schema.names, rows


def _shown(value: Any) -> Any:
    """As JSON has it: bytes as text where they are text."""
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError:
            return {"base64": base64.b64encode(value).decode()}
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, dict):
        return {name: _shown(each) for name, each in cast("dict[str, Any]", value).items()}
    if isinstance(value, list):
        return [_shown(each) for each in cast("list[Any]", value)]
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)


def _write_json(batches: Iterator[pa.RecordBatch], out: IO[str]) -> None:
    """An object a line."""
    names, rows = _rows_of(batches)
    for row in rows:
        out.write(json.dumps(dict(zip(names, row, strict=True)), ensure_ascii=False) + "\n")


def _write_csv(batches: Iterator[pa.RecordBatch], out: IO[str]) -> None:
    names, rows = _rows_of(batches)
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(names)
    writer.writerows([_cell(value) for value in row] for row in rows)


def _write_table(batches: Iterator[pa.RecordBatch], out: IO[str]) -> None:
    names, rows = _rows_of(batches)
    cells = ([_cell(value).replace("\n", " ") for value in row] for row in rows)
    looked_at = list(islice(cells, _LOOKED_AT))
    widths = [
        min(_WIDEST, max([len(name), _LEAST_RULE, *(len(row[place]) for row in looked_at)]))
        for place, name in enumerate(names)
    ]
    for line in _lines(names, widths, chain(looked_at, cells)):
        out.write(line)


def _lines(names: list[str], widths: list[int], rows: Iterable[list[str]]) -> Iterator[str]:
    for row in chain([names, ["-" * width for width in widths]], rows):
        yield "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() + "\n"


def _cell(value: Any) -> str:
    if isinstance(value, str):
        return value
    return "" if value is None else json.dumps(value, ensure_ascii=False)


WRITERS: Final = {"table": _write_table, "json": _write_json, "csv": _write_csv}
