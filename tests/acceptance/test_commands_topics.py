"""`lakelog topics …` against a real server: what each shows to people and to programs, and how it ends."""

from __future__ import annotations

import json
from collections.abc import Generator
from pathlib import Path

import httpx
import pytest

from tests.support.server_commands import Ran, call_command, run_command
from tests.support.serving import Server, serving


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Generator[Server]:
    with serving(tmp_path_factory.mktemp("topics") / "root", default_partitions=2) as running:
        yield running


def topics(server: Server, *words: str) -> Ran:
    return call_command(server.url, "topics", *words)


def done(server: Server, *words: str) -> Ran:
    ran = topics(server, *words)
    assert (ran.code, ran.err) == (0, "")
    return ran


def test_a_topic_lives_from_its_making_to_its_end(server: Server):
    assert done(server, "create", "life").text == "life: created, 2 partitions\n"
    assert "life" in done(server, "list").lines
    assert {"topic": "life"} in done(server, "list", "--output", "json").rows
    assert done(server, "add-partitions", "life", "--partitions", "3").text == "life: 3 partitions, before 2\n"
    (described,) = done(server, "describe", "life", "--output", "json").rows
    assert [each["partition"] for each in described["partitions"]] == [0, 1, 2]
    assert done(server, "delete", "life").text == "life: deleted\n"
    assert "life" not in done(server, "list").lines


def test_what_is_wanted_of_a_topic_is_said_with_kafkas_words(server: Server):
    wanted = (
        "--partitions",
        "1",
        "--replication-factor",
        "1",
        "--config",
        "retention.ms=5000",
        "--config",
        "segment.ms=9",
    )
    made = done(server, "create", "wanted", *wanted, "--output", "json")
    assert made.rows == [{"topic": "wanted", "created": True, "partitions": 1}]
    (described,) = done(server, "describe", "wanted", "--output", "json").rows
    assert described["configs"] == [
        {"name": "retention.ms", "value": "5000", "default": False},
        {"name": "segment.ms", "value": "9", "default": False},
    ]
    (all_of_it,) = done(server, "describe", "wanted", "--all", "--output", "json").rows
    assert {"name": "cleanup.policy", "value": "delete", "default": True} in all_of_it["configs"]


def test_settings_are_changed_and_taken_back_and_what_they_were_is_shown(server: Server):
    done(server, "create", "altered", "--config", "retention.ms=5000")
    changed = done(server, "alter", "altered", "--config", "segment.ms=7", "--delete-config", "retention.ms")
    assert [line.split() for line in changed.lines[2:]] == [
        ["segment.ms", "604800000", "7", "false"],
        ["retention.ms", "5000", "604800000", "true"],
    ]


def test_the_batches_of_a_topic_are_the_files_of_its_table(server: Server):
    done(server, "create", "filed", "--partitions", "2")
    for _ in range(2):
        body = '{"records": [{"partition": 1, "value": "YQ=="}, {"partition": 1, "value": "Yg=="}]}'
        kind = {"Content-Type": "application/vnd.kafka.binary.v2+json"}
        httpx.post(f"{server.url}/topics/filed?wait=table", content=body, headers=kind).raise_for_status()
    rows = done(server, "batches", "filed", "--output", "json").rows
    assert [(row["partition"], row["base_offset"], row["last_offset"], row["count"]) for row in rows] == [
        (1, 0, 1, 2),
        (1, 2, 3, 2),
    ]
    assert [row["position"] for row in rows] == [0, rows[0]["size"]]
    assert rows[0]["created"].endswith("Z")
    shown = done(server, "batches", "filed", "--partition", "1", "--offset", "2").lines
    assert shown[0].split() == [
        "partition",
        "base_offset",
        "last_offset",
        "count",
        "size",
        "position",
        "created",
        "file",
    ]
    assert shown[2].split()[:4] == ["1", "2", "3", "2"]
    assert len(shown) == 3


def test_a_description_for_people_is_facts_and_tables(server: Server):
    done(server, "create", "people", "--partitions", "1", "--config", "retention.ms=5000")
    assert done(server, "describe", "people").lines == [
        "topic            people",
        "partition_count  1",
        "",
        "partitions",
        "",
        "partition  beginning_offset  end_offset",
        "---------  ----------------  ----------",
        "0          0                 0",
        "",
        "configs",
        "",
        "name          value  default",
        "------------  -----  -------",
        "retention.ms  5000   false",
    ]


def test_what_is_there_or_gone_already_can_be_good_enough(server: Server):
    done(server, "create", "twice")
    again = topics(server, "create", "twice")
    assert (again.code, "exists already" in again.sentence) == (6, True)
    assert done(server, "create", "twice", "--if-not-exists", "--partitions", "9").text == (
        "twice: it was there already, 2 partitions\n"
    )
    assert topics(server, "create", "Twice", "--if-not-exists").code == 6
    assert done(server, "delete", "never", "--if-exists").text == "never: it was not there\n"


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (["describe", "absent"], 5, "`lakelog topics list` names the topics there are"),
        (["delete", "absent"], 5, "`lakelog topics list` names the topics there are"),
        (["add-partitions", "absent", "--partitions", "2"], 5, "absent"),
        (["alter", "absent", "--config", "retention.ms=1"], 5, "absent"),
        (["create", "bad name"], 7, "cannot be a topic"),
        (["create", "bad", "--config", "no.such=1"], 7, "no.such"),
        (["create", "bad", "--config", "retention.ms=x"], 7, "retention.ms"),
        (["create", "bad", "--replication-factor", "3"], 7, "there is one broker"),
        (["create", "bad", "--partitions", "0"], 2, "lakelog topics create --help"),
        (["create", "bad", "--config", "retention.ms"], 2, "'retention.ms' is no NAME=VALUE"),
        (["create"], 2, "TOPIC"),
        (["alter", "absent"], 2, "give --config or --delete-config"),
        (["list", "--server", "http://"], 2, "is no server"),
    ],
)
def test_what_cannot_be_ends_with_its_code_and_one_sentence_or_object(
    server: Server, words: list[str], code: int, says: str
):
    ended = topics(server, *words)
    assert (ended.code, ended.out) == (code, b"")
    assert says in ended.sentence
    ended = topics(server, *words, "--output", "json")
    failure = json.loads(ended.sentence)["error"]
    assert (ended.code, ended.out, failure["exit_code"]) == (code, b"", code)
    assert says in f"{failure['message']}; {failure['hint']}"


def test_what_was_deleted_before_something_fails_is_said_and_is_no_failure_that_changed_nothing(server: Server):
    done(server, "create", "first-gone")
    ended = topics(server, "delete", "first-gone", "absent", "never")
    assert (ended.code, ended.text) == (4, "first-gone: deleted\n")
    assert "absent" in ended.sentence
    assert ended.sentence.endswith("; first-gone deleted before that\n")


def test_no_partition_is_taken_away(server: Server):
    done(server, "create", "fewer", "--partitions", "3")
    ended = topics(server, "add-partitions", "fewer", "--partitions", "2")
    assert ended.code == 7
    assert "fewer" in ended.sentence


def test_without_a_server_there_is_a_sentence_and_a_code(tmp_path: Path):
    with serving(tmp_path) as server:
        url = server.url
    ended = call_command(url, "topics", "create", "x")
    assert ended.code == 3
    assert "start one with `lakelog serve`, or name another with --server URL" in ended.sentence
    other = run_command(None, "topics", "list", "--server", url)
    assert (other.code, url in other.sentence) == (3, True)
