"""SQL over Delta tables, with delta-rs' DataFusion. Changes nothing: a table is read as of one version.

The engine itself would also run statements that write files or keep settings and relations; so a statement runs only
after its plan was checked to read only.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from tempfile import TemporaryDirectory
from typing import Any, Final

import pyarrow as pa
from deltalake import DeltaTable, QueryBuilder
from deltalake.exceptions import DeltaError, TableNotFoundError

from delta_log.fetch.query_plans import check_nodes, check_word, draw, nodes_of, parse_explain, placed
from delta_log.model.errors import InvalidRequest
from delta_log.model.store_location import options_of

_MISSING: Final = re.compile(r"table '(?:[^'.]+\.){2}(.+)' not found", re.DOTALL)

#: DataFusion parses lambdas only in some dialects. Names and quotes mean the same in both dialects used here.
_SPEAK: Final = "SET datafusion.sql_parser.dialect = '{}'"


class NoSuchTable(InvalidRequest):
    """A query with an unknown relation, `name`."""

    def __init__(self, name: str) -> None:
        self.name = name
        super().__init__(f"there is no table {name}")


class TableQueries:
    """Relations by their names, and queries over them."""

    def __init__(self) -> None:
        self._engine: Any = QueryBuilder()

    def add_table(self, name: str, location: str, *, version: int | None = None) -> None:
        """Register a table, by default as of its newest version; the location includes the store's options."""
        try:
            table: Any = DeltaTable(str(location), version=version, storage_options=options_of(location) or None)
        except TableNotFoundError:
            raise NoSuchTable(name) from None
        except DeltaError as error:
            as_of = "" if version is None else f" as of version {version}"
            raise InvalidRequest(f"{name} cannot be read{as_of}: {_sentence(error)}") from error
        self._engine.register(_quoted(name), table)

    def add_empty(self, name: str, schema: pa.Schema) -> None:
        """Register an empty table with these columns."""
        with TemporaryDirectory(prefix="lakelog-sql-") as folder:
            # The folder may vanish at once: no file of it is read.
            self._engine.register(_quoted(name), DeltaTable.create(folder, schema))

    def add_view(self, name: str, text: str) -> None:
        """Register a view. Its text may contain lambdas over lists (`x -> …`), which a query may not."""
        self._run(_SPEAK.format("DuckDB"))
        self._run(f"CREATE VIEW {_quoted(name)} AS {text}")
        self._run(_SPEAK.format("Generic"))

    def query(self, text: str) -> Iterator[pa.RecordBatch]:
        """Run a query and yield its rows in batches; the first batch is empty and carries the schema.

        NotAQuery if the text does more than read the relations.
        """
        explained = parse_explain(text)
        self._check_reads(text, text if explained is None else explained.query)
        # Rebuilt from the checked parts, so that nothing unchecked of the text reaches the engine.
        text = text if explained is None else f"{explained.prefix}\n{explained.query}"
        found = pa.RecordBatchReader.from_stream(self._run(text))
        yield pa.RecordBatch.from_pylist([], schema=found.schema)
        try:
            yield from found
        except (OSError, pa.ArrowException) as error:
            raise InvalidRequest(f"the query failed: {_sentence(error)}") from error

    def _check_reads(self, text: str, query: str) -> None:
        """Raise NotAQuery unless the text only reads. `query` is its statement without EXPLAIN."""
        check_word(text)
        try:
            plans = pa.table(self._run(draw(query))).to_pylist()
        except NoSuchTable:
            raise
        except InvalidRequest as error:
            raise InvalidRequest(placed(str(error))) from error.__cause__
        if [plan["plan_type"] for plan in plans] != ["logical_plan"]:
            raise InvalidRequest(_sentence(plans[-1]["plan"]))  # the planner's error
        check_nodes(nodes_of(plans[0]["plan"]))

    def _run(self, text: str) -> Any:
        try:
            return self._engine.execute(text)
        except DeltaError as error:
            missing = _MISSING.search(str(error))
            raise NoSuchTable(missing[1]) if missing else InvalidRequest(_sentence(error)) from error


def read_table(location: str, columns: Sequence[str]) -> pa.Table:
    """Columns of the newest version of a table, as any other Delta reader sees them."""
    queries = TableQueries()
    queries.add_table("t", location)
    return pa.Table.from_batches(list(queries.query(f"SELECT {', '.join(map(_quoted, columns))} FROM t")))  # noqa: S608 - names are quoted


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _sentence(error: Exception | str) -> str:
    return " ".join(str(error).split())
