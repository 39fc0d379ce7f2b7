"""`lakelog dlq …` against a real server: what lies among the dead letters, and that each goes back once."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Generator
from contextlib import suppress
from typing import Any

import httpx
import pytest

from lakelog import Admin, Consumer, Header, LakelogError, Producer
from lakelog.cli.dlq.requests import Letters
from tests.architecture.project_files import ROOT
from tests.support.consumer_stage import make_topic, new_group, read
from tests.support.server_commands import Ran, call_command
from tests.support.serving import DEADLINE_S, Server, environment, serving


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Generator[Server]:
    with serving(tmp_path_factory.mktemp("dlq") / "root") as running:
        yield running


class Stage:
    """A topic whose partition 1 has five records, of which a group has given up two."""

    def __init__(self, server: Server, dead: str | None = None) -> None:
        self.server, self.topic, self.group = server, make_topic(server), new_group()
        self.dead = dead or f"{self.group}.dlq"
        with Producer({"bootstrap.servers": server.url}) as producer:
            for number in range(5):
                producer.send(self.topic, b"%d" % number, key=b"k", headers=[("h", b"1")], partition=1)
        settings = {"bootstrap.servers": server.url, "group.id": self.group, "enable.auto.commit": False}
        with Consumer(settings | ({} if dead is None else {"dead.letter.topic": dead})) as consumer:
            consumer.subscribe([self.topic])
            records = read(consumer, 5)
            consumer.dead_letter(records[1], "no JSON")
            consumer.dead_letter(records[3], "no customer")

    def call(self, *words: str) -> Ran:
        ran = call_command(self.server.url, "dlq", *words)
        assert (ran.code, ran.err) == (0, ""), ran.err
        return ran

    def replay(self, *words: str) -> list[dict[str, Any]]:
        return list(self.call("replay", self.dead, *words, "--output", "json").rows)

    def records(self, topic: str) -> list[Any]:
        """Of all partitions."""
        with Admin({"bootstrap.servers": self.server.url}) as admin:
            partitions = range(admin.describe_topic(topic).partitions)
            count = sum(admin.offsets(topic, number).end_offset for number in partitions)
        with Consumer({"bootstrap.servers": self.server.url, "group.id": new_group()}) as consumer:
            consumer.assign([(topic, number) for number in partitions])
            return sorted(read(consumer, count), key=lambda record: record.offset)


@pytest.fixture
def stage(server: Server) -> Stage:
    return Stage(server)


def test_a_topic_of_other_records_is_not_gone_through(stage: Stage, server: Server):
    refused = call_command(server.url, "dlq", "show", stage.topic)
    assert (refused.code, refused.out) == (5, b"")
    assert refused.sentence == (
        f"lakelog dlq show: {stage.topic} is no topic of dead letters: none of its first records is one; "
        "`lakelog dlq list` names those there are\n"
    )


def test_letters_are_counted_and_shown_with_where_they_come_from_and_why(stage: Stage):
    listed = {row["topic"]: row for row in stage.call("list", "--output", "json").rows}
    group = stage.group
    assert listed[stage.dead] == {"topic": stage.dead, "group": group, "partitions": 3, "letters": 2}
    first, second = stage.call("show", stage.dead, "--output", "json").rows
    assert (first["from"], first["from_partition"], first["from_offset"]) == (stage.topic, 1, 1)
    assert (first["group"], first["attempts"], first["reason"]) == (group, 1, "no JSON")
    assert (first["key"], first["value"], second["reason"]) == ("k", "1", "no customer")
    for words, found in (
        (("--reason", "JSON"), ["1"]), (("--offset", "3"), ["3"]), (("--topic", "other"), []),
        (("--partition", "1"), ["1", "3"]), (("--partition", "0"), []), (("--since", "2000-01-01"), ["1", "3"]),
        (("--since", "2900-01-01"), []), (("--max", "1"), ["1"]),
    ):  # fmt: skip
        rows = stage.call("show", stage.dead, *words, "--output", "json").rows
        assert [row["value"] for row in rows] == found, words


def test_topics_of_any_name_are_listed_with_the_groups_whose_letters_lie_there(server: Server):
    dead = f"bad-{new_group()}"
    first, second = Stage(server, dead), Stage(server, dead)
    assert first.replay() != []
    listed = {row["topic"]: row for row in first.call("list", "--output", "json").rows}
    groups = ",".join(sorted([first.group, second.group]))
    assert listed[dead] == {"topic": dead, "group": groups, "partitions": 3, "letters": 4}


def test_each_letter_goes_back_once_as_the_record_that_it_was(stage: Stage):
    (planned,) = stage.replay("--reason", "customer", "--dry-run")
    assert (planned["to"], planned["to_partition"], planned["sent"]) == (stage.topic, 1, False)
    assert len(stage.records(stage.topic)) == 5
    (sent,) = stage.replay("--reason", "customer")
    assert (sent["to"], sent["to_partition"], sent["to_offset"], sent["sent"]) == (stage.topic, 1, 5, True)
    assert stage.replay("--reason", "customer") == []
    (other,) = stage.replay()
    assert other["to_offset"] == 6
    assert stage.replay() == []
    *_, back, last = stage.records(stage.topic)
    assert (back.key, back.value, back.headers, last.value) == (b"k", b"3", (Header("h", b"1"),), b"1")


def test_letters_go_elsewhere_whatever_went_back(stage: Stage, server: Server):
    elsewhere = make_topic(server, 1)
    assert len(stage.replay()) == 2
    assert [row["to_offset"] for row in stage.replay("--to", elsewhere)] == [0, 1]
    assert stage.replay("--to", elsewhere) == []
    assert [record.value for record in stage.records(elsewhere)] == [b"1", b"3"]


def test_a_letter_that_was_in_hand_whenever_a_replay_died_is_sent_all_the_same(stage: Stage, server: Server):
    """It did not die of it, as it only sends it on; and what was given up there would be as if it had been sent."""
    with Letters(server.url, stage.dead) as letters:
        for _ in range(12):
            with suppress(LakelogError), letters.replaying(stage.topic, 3) as replay:
                next(iter(replay))
                httpx.delete(f"{server.url}{replay._path}?failed=true").raise_for_status()
    assert [row["to_offset"] for row in stage.replay()] == [5, 6]
    assert [record.value for record in stage.records(stage.topic)][5:] == [b"1", b"3"]


DIES = """
import os, signal, sys
from lakelog.cli.main import main
from lakelog.cli.dlq.requests import Letters

passed, left = Letters.passed, [2]

def die(letters, *given):
    left[0] -= 1
    if left[0] == 0 and {noted}:
        passed(letters, *given)
    if left[0] == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    passed(letters, *given)

Letters.passed = die
main(sys.argv[1:])
"""


@pytest.mark.parametrize("noted", [False, True], ids=["before it is noted", "behind it"])
def test_a_replay_that_is_killed_is_taken_up_and_sends_no_letter_twice(stage: Stage, server: Server, noted: bool):
    words = [sys.executable, "-c", DIES.format(noted=noted), "dlq", "replay", stage.dead, "--server", server.url]
    died = subprocess.run(words, capture_output=True, timeout=DEADLINE_S, check=False, cwd=ROOT, env=environment())
    assert died.returncode == -signal.SIGKILL, died.stderr
    assert [row["to_offset"] for row in stage.replay()] == ([] if noted else [6])
    assert [record.value for record in stage.records(stage.topic)][5:] == [b"1", b"3"]
    assert stage.replay() == []
