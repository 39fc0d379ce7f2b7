"""SQL over topics in Spark: every topic, what groups and transactions have committed, by the names of `lakelog sql`.

    register_topics(spark, "/data/lakelog")
    spark.sql("SELECT key, count(*) FROM orders_text GROUP BY key").show()

Views of the session read the tables as they are whenever they are asked. Where a database is named, topics become
external tables of it, for everybody who reaches its catalog. Nothing is written to the root, and nothing locked.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession

from consumer_groups.sql.relations import OF_SERVER, SPARK, Dialect, Relation, Table, plan_all, quote_spark
from delta_log import LogReader
from delta_log.model.errors import LakelogError, UnknownTopic
from jobs.source.tables import root_of

__all__ = ["NameTaken", "register_topics"]

_LOG: Final = logging.getLogger(__name__)
_NOT_IN_A_NAME: Final = re.compile(r"[^A-Za-z0-9_]")


class NameTaken(ValueError):
    """A database has another table of the name that a topic would have."""

    def __init__(self, name: str, by: str, wanted_by: str) -> None:
        self.name, self.by, self.wanted_by = name, by, wanted_by
        super().__init__(f"{name} is {by} already, and cannot be {wanted_by}: drop it, or take another database")


def register_topics(
    spark: SparkSession, root: str, *, topics: Iterable[str] | None = None, database: str | None = None
) -> list[str]:
    """Have SQL know all topics of a root, or these; returns the names. Call it again when there are others.

    Without `database` they are temporary views of the session, each under the very name of its topic. In a database,
    `db` or `catalog.db`, a name is what its catalog takes: whatever is no letter, digit or `_` becomes `_`.
    """
    with LogReader.open(root_of(root)) as log:
        places = _places(log, topics)
    own = places.keys() & OF_SERVER.keys()
    dialect = SPARK if database is None else replace(SPARK, quote=partial(name_in, database))
    relations = plan_all(places.keys() - own, dialect, own)
    if database is not None:
        _check_apart(relations, dialect)
    for relation in relations:
        if not isinstance(relation, Table):
            _run_view(spark, relation.name, relation.text, dialect, database)
        elif database is None:
            _run_view(spark, relation.name, _all_of(places[relation.topic]), dialect, None)
        else:
            _have_table(spark, dialect.quote(relation.name), places[relation.topic])
    return [name_in(database, each.name) if database else each.name for each in relations]


def name_in(database: str, name: str) -> str:
    """Quoted, as SQL wants it."""
    return ".".join(quote_spark(each) for each in (*database.split("."), _NOT_IN_A_NAME.sub("_", name)))


def _places(log: LogReader, topics: Iterable[str] | None) -> dict[str, str]:
    """Where each table is. Of all topics, those that cannot be read are told and left out."""
    places: dict[str, str] = {}
    for name in [*(log.topics() if topics is None else topics), *OF_SERVER]:
        try:
            places[name] = log.table_location(name)
        except UnknownTopic:
            if topics is not None and name not in OF_SERVER:
                raise
        except LakelogError as error:
            if topics is not None:
                raise
            _LOG.warning("%s is left out: %s", name, error)
    return places


def _check_apart(relations: list[Relation], dialect: Dialect) -> None:
    """Topics whose names differ by a dash alone would be one table."""
    taken: dict[str, str] = {}
    for relation in relations:
        name = dialect.quote(relation.name)
        other = taken.setdefault(name.lower(), relation.name)
        if other != relation.name:
            raise NameTaken(name, f"{other!r}", f"{relation.name!r}")


def _run_view(spark: SparkSession, name: str, text: str, dialect: Dialect, database: str | None) -> None:
    kind = "TEMPORARY VIEW" if database is None else "VIEW"
    _run(spark, f"CREATE OR REPLACE {kind} {dialect.quote(name)} AS {text}")


def _have_table(spark: SparkSession, name: str, place: str) -> None:
    """An external table: dropping it leaves the topic as it is."""
    _run(spark, f"CREATE TABLE IF NOT EXISTS {name} USING DELTA LOCATION {_text(place)}")
    found = _run(spark, f"DESCRIBE DETAIL {name}").select("location").collect()[0][0]
    if root_of(found) != root_of(place):
        raise NameTaken(name, f"a table at {found}", f"the topic at {place}")


def _run(spark: SparkSession, text: str) -> DataFrame:
    session: Any = spark  # what may stand for its parameters has no type
    return session.sql(text)


def _all_of(place: str) -> str:
    return f"SELECT * FROM delta.{quote_spark(place)}"  # noqa: S608 - quoted


def _text(value: str) -> str:
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"
