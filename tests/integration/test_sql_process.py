"""`lakelog sql` as a process: where it finds its root, whoever reads its output, and what may be wrong there."""

from __future__ import annotations

from pathlib import Path

import pytest

from delta_log import Log, Record
from lakelog import Admin, Producer
from lakelog.cli.kit.exit_codes import NOBODY_READS, NOT_NOW, UNUSABLE, WRONG_ROOT
from tests.support import damaged_roots as roots
from tests.support.commands import call_lakelog, call_main, calling_lakelog, end
from tests.support.serving import serving

COUNT = "SELECT count(*) AS n FROM orders"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """With a root where one is looked for."""
    place = tmp_path_factory.mktemp("sql")
    with Log.open(place / "lakelog-data") as log:
        log.create_topic("orders", 1)
        log.append("orders", [Record(b"%d" % number) for number in range(50_000)])
    return place


def test_the_root_is_the_one_that_is_named_or_that_is_here_or_a_server_s(folder: Path, tmp_path: Path):
    here = call_lakelog("sql", COUNT, "--output", "json", cwd=folder)
    assert (here.code, here.err, here.said) == (0, "", {"n": 50_000})
    assert "\033" not in call_lakelog("sql", COUNT, "--data", folder / "lakelog-data").out
    with serving(tmp_path / "root") as server:
        settings = {"bootstrap.servers": server.url}
        with Admin(settings) as admin, Producer(settings) as producer:
            admin.create_topic("orders", partitions=1)
            producer.send("orders", b"1").result()
        named = call_lakelog("sql", "SELECT value FROM orders_text", "--server", server.url, "--output", "json")
        assert (named.code, named.said) == (0, {"value": "1"})
        code = call_lakelog("sql", COUNT, cwd=folder, env={"LAKELOG_SERVER": server.url, "LAKELOG_DATA": "absent"}).code
        assert code == WRONG_ROOT
        address = server.url.removeprefix("http://")
        assert call_lakelog("sql", COUNT, cwd=tmp_path, env={"LAKELOG_SERVER": address}).code == 0
        server.kill()
        gone = call_main("sql", COUNT, "--server", server.url)
        assert (gone.code, gone.out) == (NOT_NOW, "")
        assert "does not answer" in gone.failure
        assert call_main("sql", COUNT, "--data", tmp_path / "root", "--output", "csv").code == 0


def test_nobody_need_read_all_of_it(folder: Path):
    with calling_lakelog("sql", 'SELECT "offset", value FROM orders ORDER BY 1', cwd=folder) as process:
        assert process.stdout is not None
        assert process.stdout.readline().split() == ["offset", "value"]
        process.stdout.close()
        process.stdout = None
        assert end(process).code == NOBODY_READS


def test_of_a_damaged_root_the_rest_can_be_asked(tmp_path: Path):
    root = roots.make_dead_root(tmp_path / "root", journal=False)
    with Log.open(root, settings=roots.QUIET) as log:
        log.create_topic("payments", 1)
    roots.empty(roots.entries(root)[-1])
    damaged = call_main("sql", COUNT, "--data", root)
    assert (damaged.code, damaged.out) == (NOT_NOW, "")
    assert "topic 'orders' is closed: " in damaged.failure
    assert "`lakelog repair --dry-run`" in damaged.failure
    assert call_main("sql", "SELECT count(*) AS n FROM payments", "--data", root).code == 0
    roots.cut(root / "lakelog.json")
    unreadable = call_main("sql", "SELECT 1", "--data", root)
    assert (unreadable.code, "lakelog.json cannot be read" in unreadable.failure) == (WRONG_ROOT, True)


@pytest.mark.parametrize(
    "query", ["DROP TABLE orders", "-- all\n /* of it */ delete FROM orders", "COPY (SELECT 1) TO 'x.csv'"]
)
def test_a_query_that_would_change_something_is_refused(folder: Path, query: str):
    done = call_main("sql", query, "--data", folder / "lakelog-data")
    assert (done.code, done.out) == (UNUSABLE, "")
    assert "a query changes nothing, and " in done.failure
    assert not Path("x.csv").exists()
