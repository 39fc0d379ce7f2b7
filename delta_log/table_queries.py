"""SQL over Delta tables, by DataFusion as delta-rs brings it. It changes nothing: a table is read as of one version."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime
from typing import Any, Final

import pyarrow as pa
from deltalake import DeltaTable, QueryBuilder
from deltalake.exceptions import DeltaError, TableNotFoundError

from delta_log.errors import InvalidRequest

_MISSING: Final = re.compile(r"table '(?:[^'.]+\.){2}(.+)' not found", re.DOTALL)


class NoSuchTable(InvalidRequest):
    """A query names a relation that is not known; `name` is it."""

    def __init__(self, name: str) -> None:
        self.name = name
        super().__init__(f"there is no table {name}")


class TableQueries:
    """Relations by their names, and queries over them."""

    def __init__(self) -> None:
        self._engine: Any = QueryBuilder()

    def add_table(self, name: str, location: str, *, at: int | datetime | None = None) -> None:
        """`at` is a version, or a time: then the newest version that is not younger."""
        try:
            table: Any = DeltaTable(location, version=at if isinstance(at, int) else None)
            if isinstance(at, datetime):
                table.load_as_version(at)
        except TableNotFoundError:
            raise NoSuchTable(name) from None
        except DeltaError as error:
            raise InvalidRequest(f"{name} cannot be read as of {at}: {_sentence(error)}") from error
        self._engine.register(_quoted(name), table)

    def add_view(self, name: str, text: str) -> None:
        self._run(f"CREATE VIEW {_quoted(name)} AS {text}")

    def query(self, text: str) -> Iterator[pa.RecordBatch]:
        """The rows, batch by batch; the first one is there even where there are no rows."""
        found = pa.RecordBatchReader.from_stream(self._run(text))
        yield pa.RecordBatch.from_pylist([], schema=found.schema)
        try:
            yield from found
        except (OSError, pa.ArrowException) as error:
            raise InvalidRequest(f"the query failed: {_sentence(error)}") from error

    def _run(self, text: str) -> Any:
        try:
            return self._engine.execute(text)
        except DeltaError as error:
            missing = _MISSING.search(str(error))
            raise NoSuchTable(missing[1]) if missing else InvalidRequest(_sentence(error)) from error


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _sentence(error: Exception) -> str:
    return " ".join(str(error).split())
