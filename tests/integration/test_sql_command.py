"""`lakelog sql` over the tables of a real log: its rows in every form, its views, and what it says when it cannot."""

from __future__ import annotations

import asyncio
import csv
import io
import json
import os
import time
from pathlib import Path

import pytest

from consumer_groups.decisions.commits import Commitment
from consumer_groups.model.assignment import TopicPartition
from consumer_groups.sql.relations import names_in
from delta_log import Log, Record, Settings
from lakelog.cli.main import main
from tests.support.coordinating import coordinating


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("sql") / "root"
    with Log.open(place) as log:
        for topic in ("orders", "pay-ments.eu", "Big"):
            log.create_topic(topic, 1)
        log.append("orders", [Record(b"tea", key=b"alice"), Record(b"\xff\x00"), Record(None, headers=(("h", b"v"),))])
        log.append("pay-ments.eu", [Record(b"1")])

        async def commit() -> None:
            async with coordinating(log) as groups:
                for offset in (1, 2):
                    await groups.put_offsets("billing", {TopicPartition("orders", 0): Commitment(offset)})
                    log.flush()

        asyncio.run(commit())
    return place


def ask(root: Path, query: str, capsys: pytest.CaptureFixture[str], *options: str) -> tuple[int, str, str]:
    code = main(["sql", query, "--data", str(root), *options])
    said = capsys.readouterr()
    return code, said.out, said.err


def rows(root: Path, query: str, capsys: pytest.CaptureFixture[str]) -> list[dict[str, object]]:
    code, out, err = ask(root, query, capsys, "--output", "json")
    assert (code, err) == (0, "")
    return [json.loads(line) for line in out.splitlines()]


def test_a_topic_is_a_table_with_its_bytes_shown_as_what_they_are(root: Path, capsys: pytest.CaptureFixture[str]):
    found = rows(root, 'SELECT key, value, headers FROM orders ORDER BY "offset"', capsys)
    assert found == [
        {"key": "alice", "value": "tea", "headers": None},
        {"key": None, "value": {"base64": "/wA="}, "headers": None},
        {"key": None, "value": None, "headers": [{"key": "h", "value": "v"}]},
    ]


def test_the_text_of_a_topic_can_be_compared_as_text(root: Path, capsys: pytest.CaptureFixture[str]):
    assert rows(root, "SELECT key FROM orders_text WHERE value = 'tea'", capsys) == [{"key": "alice"}]
    assert rows(root, 'SELECT value FROM orders_text WHERE "offset" = 1', capsys) == [{"value": "/wA="}]


def test_headers_are_text_too_and_bytes_in_the_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    headers = (("trace", "ü".encode()), ("raw", b"\xff\x00"), ("none", None), ("trace", b""))
    with Log.open(tmp_path / "root") as log:
        log.create_topic("orders", 1)
        log.append("orders", [Record(b"1"), Record(b"2", headers=headers)])
    found = rows(tmp_path / "root", 'SELECT headers FROM orders_text ORDER BY "offset"', capsys)
    texts = [("trace", "ü"), ("raw", "/wA="), ("none", None), ("trace", "")]
    assert found == [{"headers": None}, {"headers": [{"key": key, "value": value} for key, value in texts]}]
    traced = "SELECT h['value'] AS v FROM (SELECT unnest(headers) AS h FROM orders_text) WHERE h['key'] = 'trace'"
    assert rows(tmp_path / "root", traced, capsys) == [{"v": "ü"}, {"v": ""}]
    raw = "SELECT h['value'] AS v FROM (SELECT unnest(headers) AS h FROM orders) WHERE h['key'] = 'raw'"
    assert rows(tmp_path / "root", raw, capsys) == [{"v": {"base64": "/wA="}}]


def test_topics_whose_names_are_no_words_are_quoted(root: Path, capsys: pytest.CaptureFixture[str]):
    query = 'SELECT (SELECT count(*) FROM "pay-ments.eu") AS n, (SELECT count(*) FROM "Big") AS b, value AS v'
    assert rows(root, f'{query} FROM "pay-ments.eu_text"', capsys) == [{"n": 1, "b": 0, "v": "1"}]


def test_what_groups_committed_last_and_how_far_they_are_behind(root: Path, capsys: pytest.CaptureFixture[str]):
    stored = 'SELECT count(*) AS n FROM "__consumer_offsets"'
    assert rows(root, stored, capsys) == rows(root, "SELECT count(*) AS n FROM consumer_offsets", capsys) == [{"n": 2}]
    latest = rows(root, 'SELECT c."group" AS g, c.topic, c."offset" AS o FROM committed_offsets AS c', capsys)
    assert latest == [{"g": "billing", "topic": "orders", "o": 2}]
    lag = {"group_id": "billing", "topic": "orders", "partition": 0, "next_offset": 2, "end_offset": 3, "lag": 1}
    assert rows(root, "SELECT * FROM group_lag", capsys) == [lag]


def test_a_table_for_people_and_csv_for_programs(root: Path, capsys: pytest.CaptureFixture[str]):
    query = 'SELECT "offset", value FROM orders ORDER BY "offset"'
    _, table, _ = ask(root, query, capsys)
    assert table.splitlines() == [
        "offset  value",
        "------  ------------------",
        "0       tea",
        '1       {"base64": "/wA="}',
        "2",
    ]
    _, text, _ = ask(root, query, capsys, "--output", "csv")
    assert list(csv.reader(io.StringIO(text)))[1:] == [["0", "tea"], ["1", '{"base64": "/wA="}'], ["2", ""]]


def test_no_rows_still_have_columns(root: Path, capsys: pytest.CaptureFixture[str]):
    assert ask(root, "SELECT value FROM orders WHERE 1 = 2", capsys)[1].splitlines() == ["value", "-----"]


def test_a_query_may_come_from_standard_input(
    root: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("sys.stdin", io.StringIO("SELECT count(*) AS n\nFROM orders -- payments\n"))
    assert rows(root, "-", capsys) == [{"n": 3}]


def test_tables_can_be_read_as_of_a_time(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    with Log.open(tmp_path / "root") as log:
        log.create_topic("orders", 1)
        log.append("orders", [Record(b"early")])
        log.flush()
        time.sleep(0.01)  # versions are told apart by milliseconds
        between = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(now := time.time())) + f".{int(now % 1 * 1000):03d}Z"
        time.sleep(0.01)
        log.append("orders", [Record(b"late")])
    query = "SELECT count(*) AS n FROM orders"
    assert rows(tmp_path / "root", query, capsys) == [{"n": 2}]
    code, out, _ = ask(tmp_path / "root", query, capsys, "--at", between, "--output", "csv")
    assert (code, out.splitlines()[1:]) == (0, ["1"])


def test_tables_can_be_read_as_of_a_version_each_as_far_back_as_its_history(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    """An entry's age is that of its file, as for all readers of Delta."""
    with Log.open(tmp_path / "root") as log:
        for topic in ("orders", "payments"):
            log.create_topic(topic, 1, config={"lakelog.history.ms": 60_000})
            for value in (b"1", b"2", b"3"):
                log.append(topic, [Record(value)])
                log.flush()
    orders = "SELECT count(*) AS n FROM orders"
    both = "SELECT (SELECT count(*) FROM orders) AS o, (SELECT max(value) FROM payments_text) AS p"
    for words, found in (
        ((orders, "--at", "1"), {"n": 1}),
        ((both, "--at", "orders=2"), {"o": 2, "p": "3"}),
        ((both, "--at", "orders=1", "--at", "payments=2"), {"o": 1, "p": "2"}),
    ):
        code, out, _ = ask(tmp_path / "root", words[0], capsys, *words[1:], "--output", "json")
        assert (code, json.loads(out)) == (0, found)
    log_files = sorted((tmp_path / "root" / "topics" / "orders" / "_delta_log").glob("*.json"))
    for entry in log_files[:3]:
        os.utime(entry, (1_700_000_000, 1_700_000_000))
    for at in ("1", "2023-11-14T22:13:19Z", "2023-11-14T22:13:19.999Z"):
        code, out, err = ask(tmp_path / "root", orders, capsys, "--at", at)
        assert (code, out) == (7, "")
        assert "behind its history (lakelog.history.ms = 60000 and" in err
        assert "it can from version 2 on, of 2023-11-14T22:13:20.000Z" in err
    assert ask(tmp_path / "root", orders, capsys, "--at", "2")[0] == 0
    assert ask(tmp_path / "root", both, capsys, "--at", "2")[0] == 2
    assert "its newest version is 3" in ask(tmp_path / "root", orders, capsys, "--at", "4")[2]


@pytest.mark.parametrize(
    ("query", "code", "says"),
    [
        ("SELECT * FROM absent", 5, "there is no table absent; the topics are: Big, orders, pay-ments.eu; the views:"),
        ("SELECT nothing FROM orders", 7, "No field named nothing"),
        ("SELEC", 7, "SQL error"),
        ("SELECT 1 / 0 FROM orders", 7, "Divide by zero"),
        ("INSERT INTO orders SELECT * FROM orders", 7, "INSERT would"),
        ("SELECT partition, offset, value FROM orders_text", 7, '; quote "offset", which SQL takes'),
        ("SELECT * FROM pay-ments.eu", 7, '; quote a name that is no plain word, as FROM "pay-ments.eu"'),
        ("SELECT * FROM pay-ments.eu_text", 7, '; quote a name that is no plain word, as FROM "pay-ments.eu_text"'),
        ("SELECT * FROM Big", 5, '; quote a name that is no plain word, as FROM "Big"'),
        ("SHOW COLUMNS FROM orders", 7, "; DESCRIBE orders shows them"),
    ],
)
def test_what_cannot_be_answered_is_one_sentence(
    root: Path, capsys: pytest.CaptureFixture[str], query: str, code: int, says: str
):
    ended, _, err = ask(root, query, capsys)
    assert ended == code
    assert err.startswith("lakelog sql: ")
    assert says in err
    assert len(err.splitlines()) == 1


def test_a_place_without_a_log_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    assert "it has no lakelog.json" in ask(tmp_path / "absent", "SELECT 1", capsys)[2]


def test_what_a_server_has_not_written_yet_is_empty(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    with Log.open(tmp_path / "root") as log:
        log.create_topic("orders", 1)
    root = tmp_path / "root"
    for name in ("transactions", "__transactions", "consumer_offsets", "committed_offsets", "group_lag"):
        assert rows(root, f"SELECT count(*) AS n FROM {name}", capsys) == [{"n": 0}]
    assert ask(root, "SELECT * FROM committed_offsets", capsys)[1].split()[:2] == ["group", "topic"]


def test_the_relations_there_are_can_be_listed(root: Path, capsys: pytest.CaptureFixture[str]):
    found = [row["table"] for row in rows(root, "show tables;", capsys)]
    assert found[:4] == ["Big", "orders", "pay-ments.eu", "Big_text"]
    for name in found:
        assert ask(root, f'SELECT * FROM "{name}"', capsys)[0] == 0


def test_text_is_the_table_that_other_commands_call_so(root: Path, capsys: pytest.CaptureFixture[str]):
    query = "SELECT count(*) AS n FROM orders"
    assert ask(root, query, capsys, "--output", "text") == ask(root, query, capsys)


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ('SELECT a FROM "Or""ders"', {"select", "a", "from", 'Or"ders'}),
        ("SELECT 'orders' FROM Big -- payments\n", {"select", "from", "big"}),
    ],
)
def test_names_are_what_sql_takes_for_names(query: str, names: set[str]):
    assert names_in(query) == names


def test_a_transaction_says_which_versions_of_the_tables_have_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    with Log.open(tmp_path, settings=Settings(upkeep=False)) as log:
        log.create_topic("orders", 1)
        for _ in range(7):
            begun = log.transactions.begin("copier")
            log.transactions.append(begun.id, "orders", [Record(b"x")])
            log.transactions.commit(begun.id)
        log.flush()
        log.transactions.complete()
    found = rows(tmp_path, "SELECT epoch, state, ranges FROM transactions ORDER BY epoch", capsys)
    assert [(each["epoch"], each["state"]) for each in found] == [(epoch, "complete") for epoch in range(2, 7)]
    topic, _, (given,), version = json.loads(str(found[-1]["ranges"]))[0]
    assert (topic, given["base_offset"]) == ("orders", 6)
    count = 'SELECT count(*) AS found FROM orders WHERE "offset" <= 6'
    _, out, _ = ask(tmp_path, count, capsys, "--output", "json", "--at", f"orders={version}")
    assert json.loads(out) == {"found": 7}
