"""`lakelog sql` reads the tables of topics, and does nothing else, however a statement is written."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from hashlib import sha256
from itertools import product
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import QueryBuilder

from delta_log import Log, Record
from delta_log.fetch.query_plans import NotAQuery
from delta_log.fetch.sql import TableQueries
from delta_log.model.errors import InvalidRequest
from lakelog.cli.main import main

_SECRET = "hunter2"
#: Statements that do more than read, with the word that the refusal names. `{out}` is a file to be written.
_CHANGES = [
    ("COPY orders TO '{out}.csv'", "COPY"),
    ("COPY orders TO '{out}'", "COPY"),
    ("COPY orders TO '{out}' STORED AS PARQUET", "COPY"),
    ("COPY (SELECT 1) TO '{out}.json'", "COPY"),
    ("INSERT INTO orders SELECT * FROM orders", "INSERT"),
    ("UPDATE orders SET value = 'x'", "UPDATE"),
    ("DELETE FROM orders", "DELETE"),
    ("TRUNCATE TABLE orders", "TRUNCATE"),
    ("MERGE INTO orders USING orders AS o ON o.key = orders.key WHEN MATCHED THEN DELETE", "MERGE"),
    ("CREATE EXTERNAL TABLE stolen STORED AS CSV LOCATION '{secret}'", "CREATE"),
    ("CREATE EXTERNAL TABLE made (a INT) STORED AS CSV LOCATION '{out}/'", "CREATE"),
    ("CREATE UNBOUNDED EXTERNAL TABLE stolen STORED AS CSV LOCATION '{secret}'", "CREATE"),
    ("CREATE VIEW stolen AS SELECT * FROM orders", "CREATE"),
    ("CREATE OR REPLACE VIEW orders AS SELECT 1", "CREATE"),
    ("CREATE TABLE stolen AS SELECT * FROM orders", "CREATE"),
    ("CREATE TABLE stolen (a INT)", "CREATE"),
    ("SELECT * INTO stolen FROM orders", "CREATE"),
    ("CREATE SCHEMA stolen", "CREATE"),
    ("CREATE DATABASE stolen", "CREATE"),
    ("CREATE FUNCTION stolen(INT) RETURNS INT RETURN $1 + 1", "CREATE"),
    ("CREATE MACRO stolen(a) AS a + 1", "CREATE"),
    ("CREATE INDEX stolen ON orders (key)", "CREATE"),
    ("DROP TABLE orders", "DROP"),
    ("DROP VIEW orders", "DROP"),
    ("DROP SCHEMA public CASCADE", "DROP"),
    ("DROP FUNCTION IF EXISTS abs", "DROP"),
    ("ALTER TABLE orders ADD COLUMN a INT", "ALTER"),
    ("SET datafusion.sql_parser.enable_ident_normalization = true", "SET"),
    ("SET TIME ZONE = '+05:00'", "SET"),
    ("RESET datafusion.execution.batch_size", "RESET"),
    ("PREPARE p AS SELECT * FROM orders", "PREPARE"),
    ("EXECUTE p", "EXECUTE"),
    ("DEALLOCATE p", "DEALLOCATE"),
    ("BEGIN", "BEGIN"),
    ("COMMIT", "COMMIT"),
    ("USE stolen", "USE"),
    ("ATTACH '{secret}' AS stolen", "ATTACH"),
    ("INSTALL httpfs", "INSTALL"),
    ("LOAD 'httpfs'", "LOAD"),
    ("EXPORT DATABASE '{out}'", "EXPORT"),
    ("UNLOAD (SELECT 1) TO '{out}'", "UNLOAD"),
    ("PRAGMA enable_object_cache", "PRAGMA"),
    ("VACUUM orders", "VACUUM"),
    ("CALL stolen()", "CALL"),
    ("KILL 1", "KILL"),
]
#: Reads of what is no topic, and statements that are none.
_READS = [
    "SELECT * FROM '{secret}'",
    'SELECT * FROM "{secret}"',
    "SELECT * FROM 'file://{secret}'",
    "SELECT * FROM '{folder}/*.csv'",
    "SELECT * FROM '{folder}/'",
    "FROM '{secret}'",
    "DESCRIBE '{secret}'",
    "SELECT * FROM read_csv('{secret}')",
    "SELECT * FROM read_text('{secret}')",
    "SELECT * FROM read_parquet('{secret}')",
    "SELECT * FROM parquet_metadata('{secret}')",
    "SELECT * FROM glob('{folder}/*')",
    "SELECT * FROM information_schema.df_settings",
    "SELECT getenv('HOME')",
    "SELECT @@version",
    "SHOW ALL",
    "WITH x AS (SELECT * FROM '{secret}') SELECT * FROM x",
    "WITH x AS (INSERT INTO orders SELECT * FROM orders RETURNING *) SELECT * FROM x",
    "WITH x AS (DELETE FROM orders RETURNING *) SELECT * FROM x",
    "WITH x AS (SELECT 1) INSERT INTO orders SELECT * FROM orders",
    "SELECT (SELECT * FROM read_csv('{secret}')) FROM orders",
    "SELECT 1 WHERE EXISTS (SELECT * FROM '{secret}')",
    "SELECT 1 UNION ALL SELECT * FROM '{secret}'",
    "SELECT 1 INTO OUTFILE '{out}'",
    "ANALYZE TABLE orders COMPUTE STATISTICS",
]
_GAPS = [" ", "\n", "\t", "\r\n", " /* SELECT */ ", " -- SELECT\n", " /* a /* b */ c */ ", " /* ; */ "]
_BEFORE = [
    [],
    ["EXPLAIN"],
    ["EXPLAIN", "ANALYZE"],
    ["EXPLAIN", "VERBOSE"],
    ["EXPLAIN", "ANALYZE", "VERBOSE"],
    ["EXPLAIN", "VERBOSE", "ANALYZE"],
    ["EXPLAIN", "FORMAT", "graphviz"],
    ["EXPLAIN", "FORMAT", "tree"],
    ["EXPLAIN", "FORMAT", "pgjson", "ANALYZE"],
    ["EXPLAIN", "(ANALYZE)"],
    ["EXPLAIN", "(ANALYZE, FORMAT tree)"],
    ["EXPLAIN", "EXPLAIN"],
    ["EXPLAIN", "EXPLAIN", "ANALYZE"],
    ["EXPLAIN", "ANALYZE", "EXPLAIN", "ANALYZE"],
    ["ANALYZE"],
    ["VERBOSE"],
    ["FORMAT", "tree"],
    ["DESCRIBE"],
    ["DESC"],
    ["PREPARE", "p", "AS"],
    ["EXPLAIN", "PREPARE", "p", "AS"],
    ["SELECT", "1;"],
    ["EXPLAIN", "SELECT", "1;"],
    [";"],
    ["("],
    ["WITH", "x", "AS", "(SELECT 1)"],
]
_AFTER = ["", ";", ";;", " -- end", "; SELECT 1", ")", " /* open"]


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("reads") / "root"
    with Log.open(place) as log:
        log.create_topic("orders", 1)
        log.append("orders", [Record(b"tea", key=b"alice")])
    return place


class Sandbox:
    """A folder with a secret in it, in which nothing may come to be, and a root that must stay as it is."""

    def __init__(self, root: Path, folder: Path) -> None:
        self.root, self.folder, self.secret = root, folder, folder / "secret.csv"
        self.secret.write_text(f"password\n{_SECRET}\n")
        self._before = self._now()

    def filled(self, statement: str) -> str:
        places = {"out": str(self.folder / "out"), "secret": str(self.secret), "folder": str(self.folder)}
        for name, place in places.items():
            statement = statement.replace("{" + name + "}", place)
        return statement

    def check(self) -> None:
        assert self._now() == self._before

    def _now(self) -> dict[Path, str]:
        return {
            path: "" if path.is_dir() else sha256(path.read_bytes()).hexdigest()
            for folder in (self.root, self.folder)
            for path in folder.rglob("*")
        }


@pytest.fixture
def sandbox(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Sandbox:
    monkeypatch.chdir(tmp_path)
    return Sandbox(root, tmp_path)


def attacks() -> Iterator[str]:
    """Each statement behind each prefix, and others at random, in other letters and with comments in between."""
    statements = [each for each, _ in _CHANGES] + _READS
    for before, statement in product(_BEFORE[1:], statements):
        yield " ".join([*before, statement])
    chance = random.Random(19)
    for _ in range(1500):
        words = [*chance.choice(_BEFORE), *chance.choice(statements).split(" ")]
        if chance.random() < 0.3:
            words = [word if "/" in word or "{" in word else word.swapcase() for word in words]
        gaps = ["" if chance.random() < 0.5 else chance.choice(_GAPS), *(chance.choice(_GAPS) for _ in words[1:])]
        yield "".join(gap + word for gap, word in zip(gaps, words, strict=True)) + chance.choice(_AFTER)


@pytest.mark.parametrize(("statement", "word"), _CHANGES)
@pytest.mark.parametrize("before", ["", "EXPLAIN ", "EXPLAIN ANALYZE ", "/* SELECT */ explain\nverbose\n"])
def test_a_statement_that_does_more_than_read_is_refused_by_its_name(
    sandbox: Sandbox, capsys: pytest.CaptureFixture[str], before: str, statement: str, word: str
):
    code = main(["sql", before + sandbox.filled(statement), "--data", str(sandbox.root)])
    said = capsys.readouterr()
    assert (code, said.out) == (7, "")
    assert f"a query changes nothing, and {word} would" in said.err
    assert len(said.err.splitlines()) == 1
    sandbox.check()


@pytest.mark.parametrize("statement", _READS)
@pytest.mark.parametrize("before", ["", "EXPLAIN ", "EXPLAIN ANALYZE "])
def test_nothing_but_the_topics_is_read(
    sandbox: Sandbox, capsys: pytest.CaptureFixture[str], before: str, statement: str
):
    code = main(["sql", before + sandbox.filled(statement), "--data", str(sandbox.root)])
    said = capsys.readouterr()
    assert code in {5, 7}
    assert said.out == ""
    assert _SECRET not in said.err
    sandbox.check()


def test_no_dress_lets_a_statement_through_nor_leaves_the_engine_changed(sandbox: Sandbox):
    queries = TableQueries()
    queries.add_table("orders", str(sandbox.root / "topics" / "orders"))
    answered: list[str] = []
    said: list[str] = []
    for statement in map(sandbox.filled, attacks()):
        try:
            said += [str(row) for batch in queries.query(statement) for row in batch.to_pylist()]
            answered.append(statement)
        except InvalidRequest as error:
            said.append(str(error))
    sandbox.check()
    assert not [each for each in said if _SECRET in each]
    # They tell the columns, and make nothing.
    assert set(answered) == {f"{word} SELECT * INTO stolen FROM orders" for word in ("DESCRIBE", "DESC")}
    # Were one of the settings, relations or statements kept, one of these would tell.
    assert [batch.num_rows for batch in queries.query("SELECT * FROM orders")] == [0, 1]
    for kept in ("SELECT * FROM ORDERS", "SELECT * FROM stolen", "SELECT stolen(1)", "EXECUTE p"):
        with pytest.raises(InvalidRequest):
            list(queries.query(kept))


@pytest.mark.parametrize(
    "query",
    [
        "SELECT * FROM orders",
        "FROM orders",
        "VALUES (1), (2)",
        "(SELECT 1)",
        "-- what for\nSELECT 1;",
        "WITH copy AS (SELECT key FROM orders) SELECT * FROM copy",
        "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r WHERE n < 3) SELECT * FROM r",
        "SELECT DISTINCT ON (key) key, value FROM orders ORDER BY key",
        "SELECT DISTINCT key FROM orders",
        'SELECT key, row_number() OVER (ORDER BY "offset") FROM orders',
        "SELECT count(*) FILTER (WHERE key IS NULL) FROM orders GROUP BY GROUPING SETS ((key), ())",
        "SELECT * FROM orders a JOIN orders b USING (key) LEFT JOIN orders c ON a.key = c.key",
        "SELECT * FROM orders a CROSS JOIN orders b, orders c",
        "SELECT * FROM orders a FULL JOIN orders b ON a.key = b.key RIGHT JOIN orders c ON true",
        "SELECT * FROM orders WHERE key IN (SELECT key FROM orders) OR EXISTS (SELECT 1 FROM orders)",
        "SELECT * FROM orders WHERE key NOT IN (SELECT key FROM orders)",
        "SELECT (SELECT max(value) FROM orders) FROM orders",
        "SELECT 1 UNION SELECT 2 EXCEPT SELECT 3 INTERSECT SELECT 4",
        "SELECT * FROM orders, LATERAL (SELECT 1 AS one) x",
        "SELECT unnest(headers) FROM orders",
        "SELECT * FROM generate_series(1, 3)",
        "SELECT * FROM range(1, 3) AS r",
        'SELECT value FROM orders ORDER BY "offset" LIMIT 1 OFFSET 0',
        "SELECT value FROM orders WHERE false",
        "SELECT 'COPY orders TO ''x''', 'x\"]\n3[shape=box label=\"CopyTo: y' FROM orders",
        "DESCRIBE orders",
        "DESC orders",
        "DESCRIBE SELECT 1",
        "EXPLAIN SELECT * FROM orders",
        "explain verbose SELECT * FROM orders",
        "EXPLAIN ANALYZE SELECT * FROM orders",
        "EXPLAIN ANALYZE VERBOSE SELECT * FROM orders",
        "EXPLAIN FORMAT tree SELECT * FROM orders",
        "EXPLAIN FORMAT pgjson WITH x AS (SELECT 1) SELECT * FROM x",
        "SHOW TABLES",
    ],
)
def test_every_kind_of_read_is_answered(root: Path, capsys: pytest.CaptureFixture[str], query: str):
    assert main(["sql", query, "--data", str(root), "--output", "json"]) == 0, capsys.readouterr().err
    assert capsys.readouterr().err == ""


def test_the_engine_has_no_function_that_reaches_beyond_its_arguments():
    """By their names: a version of the engine that brings one is not taken unseen."""
    engine = QueryBuilder({"datafusion.catalog.information_schema": "true"})
    found = pa.table(engine.execute("SELECT DISTINCT routine_name AS name FROM information_schema.routines"))
    names = set(found["name"].to_pylist())
    assert {"abs", "generate_series"} <= names
    reaching = re.compile("read|write|file|path|load|http|url|env|exec|system|setting|parquet|csv|json|glob|scan")
    assert {name for name in names if reaching.search(name)} == {"file_row_index", "input_file_name"}


@pytest.mark.parametrize(
    ("query", "place"), [("SELEC 1", "Line: 1, Column: 1"), ("SELECT 1,\n ,", "Line: 2, Column: 2")]
)
def test_a_mistake_is_placed_where_the_query_has_it(query: str, place: str):
    with pytest.raises(InvalidRequest, match=place):
        list(TableQueries().query(query))


def test_what_the_engine_would_do_that_is_not_known_is_refused(monkeypatch: pytest.MonkeyPatch):
    """As by a later version of it, whose plans have nodes of other names."""
    monkeypatch.setattr("delta_log.fetch.query_plans.READS", frozenset(["Projection"]))
    with pytest.raises(NotAQuery, match="EmptyRelation"):
        list(TableQueries().query("SELECT 1"))
