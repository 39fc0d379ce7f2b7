"""SQL over Delta tables, by DataFusion as delta-rs brings it. It changes nothing: a table is read as of one version.

The engine would write files, and keep settings and relations, for any statement that asks for it; so none runs before
its plan is known to read alone.
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

#: DataFusion reads lambdas in some dialects alone. Names and quotes mean the same in both of these.
_SPEAK: Final = "SET datafusion.sql_parser.dialect = '{}'"


class NoSuchTable(InvalidRequest):
    """A query names a relation that is not known; `name` is it."""

    def __init__(self, name: str) -> None:
        self.name = name
        super().__init__(f"there is no table {name}")


class TableQueries:
    """Relations by their names, and queries over them."""

    def __init__(self) -> None:
        self._engine: Any = QueryBuilder()

    def add_table(self, name: str, location: str, *, version: int | None = None) -> None:
        """As of its newest version where none is given; the location knows how its store is reached."""
        try:
            table: Any = DeltaTable(str(location), version=version, storage_options=options_of(location) or None)
        except TableNotFoundError:
            raise NoSuchTable(name) from None
        except DeltaError as error:
            as_of = "" if version is None else f" as of version {version}"
            raise InvalidRequest(f"{name} cannot be read{as_of}: {_sentence(error)}") from error
        self._engine.register(_quoted(name), table)

    def add_empty(self, name: str, schema: pa.Schema) -> None:
        """A table of these columns that nothing is in yet."""
        with TemporaryDirectory(prefix="lakelog-sql-") as folder:
            # Nothing of it is read, so that it may be gone.
            self._engine.register(_quoted(name), DeltaTable.create(folder, schema))

    def add_view(self, name: str, text: str) -> None:
        """Its text may say what is done with each element of a list, as `x -> …`, which a query may not."""
        self._run(_SPEAK.format("DuckDB"))
        self._run(f"CREATE VIEW {_quoted(name)} AS {text}")
        self._run(_SPEAK.format("Generic"))

    def query(self, text: str) -> Iterator[pa.RecordBatch]:
        """The rows, batch by batch; the first one is there even where there are no rows.

        NotAQuery where the text does more than read the relations.
        """
        explained = parse_explain(text)
        self._check_reads(text, text if explained is None else explained.query)
        # Put together of what was checked: a text of which the engine could read more than that never reaches it.
        text = text if explained is None else f"{explained.prefix}\n{explained.query}"
        found = pa.RecordBatchReader.from_stream(self._run(text))
        yield pa.RecordBatch.from_pylist([], schema=found.schema)
        try:
            yield from found
        except (OSError, pa.ArrowException) as error:
            raise InvalidRequest(f"the query failed: {_sentence(error)}") from error

    def _check_reads(self, text: str, query: str) -> None:
        """`query` is the statement of the text, without EXPLAIN."""
        check_word(text)
        try:
            plans = pa.table(self._run(draw(query))).to_pylist()
        except NoSuchTable:
            raise
        except InvalidRequest as error:
            raise InvalidRequest(placed(str(error))) from error.__cause__
        if [plan["plan_type"] for plan in plans] != ["logical_plan"]:
            raise InvalidRequest(_sentence(plans[-1]["plan"]))  # what the planner failed at
        check_nodes(nodes_of(plans[0]["plan"]))

    def _run(self, text: str) -> Any:
        try:
            return self._engine.execute(text)
        except DeltaError as error:
            missing = _MISSING.search(str(error))
            raise NoSuchTable(missing[1]) if missing else InvalidRequest(_sentence(error)) from error


def read_table(location: str, columns: Sequence[str]) -> pa.Table:
    """Columns of the newest version of a table, as any other reader of Delta sees it."""
    queries = TableQueries()
    queries.add_table("t", location)
    return pa.Table.from_batches(list(queries.query(f"SELECT {', '.join(map(_quoted, columns))} FROM t")))  # noqa: S608 - names are quoted


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _sentence(error: Exception | str) -> str:
    return " ".join(str(error).split())
