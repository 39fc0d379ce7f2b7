"""`lakelog sql`: a query over the tables of topics, read in place by DataFusion; no server and no JVM is needed.

It reads the tables, which are a second or so behind the log.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from queue import Queue
from threading import Thread
from typing import TYPE_CHECKING, Any, Final

from lakelog.cli.kit.exit_codes import ABSENT, CALLED_WRONGLY, UNUSABLE, Failure
from lakelog.cli.kit.output import WriteRows, write_csv, write_json, write_table
from lakelog.cli.kit.rooted import add_root, find_root
from lakelog.cli.kit.streams import standard_input
from lakelog.cli.sql.hints import decide_hint, wants_names
from lakelog.cli.sql.moments import At, assign_moments, parse_at

if TYPE_CHECKING:
    import pyarrow as pa

    from delta_log import LogReader
    from delta_log.fetch.sql import TableQueries

#: `text` is the name of `table` in other commands.
WRITERS: Final[dict[str, WriteRows]] = {
    "table": write_table,
    "text": write_table,
    "json": write_json,
    "csv": write_csv,
}
_INSTEAD: Final = "`lakelog topics` changes topics, `lakelog produce` appends, and --output writes rows as csv or json"
#: Number of batches that are computed ahead of the writing.
_AHEAD: Final = 2
#: Topics that an error names.
_NAMED: Final = 20
_EXAMPLES: Final = """
relations:
  TOPIC               the table of a topic; quote a name that is no plain word: "orders-eu"
  TOPIC_text          the same with key, value and headers as text
  consumer_offsets    what groups ever committed, as stored
  committed_offsets   what each group has committed last
  group_lag           how far each group is behind
  transactions        the last commits of each transactional id
SHOW TABLES lists them; "offset" is quoted, as SQL has a use of its own for that word.

examples:
  lakelog sql 'SELECT count(*) AS n FROM orders'
  lakelog sql 'SELECT key, value FROM orders_text ORDER BY "offset" DESC LIMIT 10'
  lakelog sql 'SELECT group_id, sum(lag) AS lag FROM group_lag GROUP BY group_id' --output json
"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.description = "Run a query over the tables of topics. It changes nothing, and needs no server."
    parser.epilog = _EXAMPLES
    parser.add_argument("query", metavar="QUERY", help="the query, or - to read it from standard input")
    add_root(parser)
    parser.add_argument(
        "--output",
        choices=WRITERS,
        default="table",
        help="how to show the rows (default table, as is text; json is an object a line)",
    )
    parser.add_argument(
        "--at",
        action="append",
        type=parse_at,
        default=[],
        metavar="TIME|VERSION",
        help="the tables as of a time, as 2026-01-31T12:00:00Z, or of a version, as 12; of one of several tables, as "
        "orders=12, and then for each",
    )


def run(args: argparse.Namespace) -> int:
    from delta_log import LogReader
    from delta_log.delta.time_travel import OutsideHistory
    from delta_log.fetch.query_plans import NotAQuery
    from delta_log.fetch.sql import NoSuchTable, TableQueries
    from delta_log.model.errors import InvalidRequest, UnknownTopic
    from delta_log.root.root import as_root, read_topic_defaults

    text = standard_input().read() if args.query == "-" else args.query
    root = as_root(find_root(args))
    queries = TableQueries()
    # The server's defaults for topics may include how long their history is kept.
    with LogReader.open(root, topic_defaults=read_topic_defaults(root.store) if args.at else None) as log:
        topics = log.topics()
        if wants_names(text):
            WRITERS[args.output](["table"], ([name] for name in _names(topics)), sys.stdout)
            return 0
        try:
            _have_relations(queries, log, text, topics, args.at)
            WRITERS[args.output](*_rows_of(_aside(queries.query(text))), sys.stdout)
        except (NoSuchTable, UnknownTopic) as error:
            hint = decide_hint(text, _names(topics), "")
            raise _no_such_table(error.name if isinstance(error, NoSuchTable) else error.topic, topics, hint) from None
        except OutsideHistory as error:
            raise Failure(str(error), exit_code=UNUSABLE) from None
        except NotAQuery as error:
            raise Failure(str(error), _INSTEAD, exit_code=UNUSABLE) from None
        except InvalidRequest as error:
            if hint := decide_hint(text, _names(topics), str(error)):
                raise Failure(str(error), hint, exit_code=UNUSABLE) from None
            raise
    return 0


def _have_relations(queries: TableQueries, log: LogReader, text: str, topics: list[str], given: Sequence[At]) -> None:
    """Register the relations that the query names, each as of its moment."""
    from consumer_groups.sql.relations import DATAFUSION, Table, names_in, plan_relations
    from delta_log.fetch.sql import NoSuchTable
    from delta_log.model.errors import UnknownTopic

    relations = plan_relations(names_in(text), topics, DATAFUSION)
    try:
        moments = assign_moments(given, [each.topic for each in relations if isinstance(each, Table)])
    except ValueError as error:
        raise Failure(str(error), exit_code=CALLED_WRONGLY) from None
    for relation in relations:
        if isinstance(relation, Table):
            at = moments.get(relation.topic)
            version = None if at is None else log.table_version(relation.topic, at)
            try:
                queries.add_table(relation.name, log.table_location(relation.topic), version=version)
            except (NoSuchTable, UnknownTopic):
                if relation.topic not in (empty := _server_tables()):
                    raise
                queries.add_empty(relation.name, empty[relation.topic])
        else:
            queries.add_view(relation.name, relation.text)


def _server_tables() -> dict[str, pa.Schema]:
    """Tables that a server creates with their first row; until then they count as empty."""
    from consumer_groups.coordinator.tables import OFFSETS
    from delta_log.transactions.transaction_log import TRANSACTIONS

    return {each.name: each.schema for each in (OFFSETS, TRANSACTIONS)}


def _names(topics: Sequence[str]) -> list[str]:
    from consumer_groups.sql.relations import relations_of

    return relations_of(topics, _server_tables())


def _no_such_table(missing: str, topics: Sequence[str], hint: str) -> Failure:
    from consumer_groups.sql.relations import COMMITTED, CONSUMER_OFFSETS, LAG, TRANSACTIONS

    known = ", ".join([*topics[:_NAMED], *(["…"] if len(topics) > _NAMED else ())]) or "none yet"
    views = f"{CONSUMER_OFFSETS}, {COMMITTED}, {LAG}, {TRANSACTIONS}, and a topic's name with _text"
    said = f"there is no table {missing}; the topics are: {known}; the views: {views}"
    return Failure(said, hint, exit_code=ABSENT)


def _aside(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Compute the batches in another thread: the engine ignores Ctrl-C, while a wait for the queue does not."""
    made: Queue[pa.RecordBatch | BaseException | None] = Queue(_AHEAD)

    def make() -> None:
        try:
            for batch in batches:
                made.put(batch)
            made.put(None)
        except BaseException as error:  # noqa: BLE001 - any failure is raised where the rows are written
            made.put(error)

    Thread(target=make, name="lakelog-sql", daemon=True).start()
    while (found := made.get()) is not None:
        if isinstance(found, BaseException):
            raise found
        yield found


def _rows_of(batches: Iterator[pa.RecordBatch]) -> tuple[list[str], Iterator[tuple[Any, ...]]]:
    """The names of the columns, and the rows."""
    first = next(batches)
    rows = (row for batch in batches for row in zip(*(column.to_pylist() for column in batch.columns), strict=True))
    return first.schema.names, rows
