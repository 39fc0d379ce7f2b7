"""Both consumers on a real server: what they give up is copied and passed, and what kills them is given up for them."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Generator
from pathlib import Path
from typing import Any

import httpx
import pytest

from lakelog import Consumer
from lakelog.foundation import errors
from tests.architecture.project_files import ROOT
from tests.support.consumer_kinds import KINDS
from tests.support.consumer_stage import Open, make_topic, new_group, nothing_comes, opening, read, send
from tests.support.serving import DEADLINE_S, Server, environment, serving


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Generator[Server]:
    with serving(tmp_path_factory.mktemp("dead-letters") / "root") as server:
        yield server


@pytest.fixture
def topic(server: Server) -> str:
    return make_topic(server)


@pytest.fixture(params=KINDS)
def opened(request: pytest.FixtureRequest, server: Server) -> Generator[Open]:
    with opening(request.param, server) as start:
        yield start


def test_what_is_given_up_is_copied_once_and_nobody_is_given_it_again(opened: Open, server: Server, topic: str):
    for number in range(5):
        send(server, topic, b"%d" % number, partition=0)
    group = new_group()
    settings = {"group.id": group, "enable.auto.commit": False}
    first = opened(**settings)
    first.subscribe([topic])
    records = read(first, 5)
    first.dead_letter(records[3], "x" * 3000)
    first.dead_letter(records[3], "again")
    first.dead_letter(records[0], "no JSON")
    first.close()
    second = opened(**settings)
    second.subscribe([topic])
    assert [record.value for record in read(second, 3)] == [b"1", b"2", b"4"]
    second.commit()
    with pytest.raises(errors.LakelogError):
        second.dead_letter(records[0], "the group has passed it")
    looking = opened()
    looking.subscribe([f"{group}.dlq"])
    letters = read(looking, 2)
    said = {letter.value: {each.name: each.value for each in letter.headers} for letter in letters}
    assert said[b"0"]["lakelog.dlq.reason"] == b"no JSON"
    assert said[b"3"]["lakelog.dlq.reason"] == b"x" * 1000
    nothing_comes(looking)


def die_at(consumer: Any, topic: str, value: bytes, done: list[bytes]) -> None:
    consumer.subscribe([topic])
    while True:
        for record in consumer.poll(1.0):
            if record.value == value:
                raise ZeroDivisionError
            done.append(record.value)


def test_what_kills_whoever_reads_it_is_given_up_and_takes_no_other_with_it(opened: Open, server: Server, topic: str):
    for number in range(6):
        send(server, topic, b"%d" % number, partition=0)
    settings = {"group.id": new_group(), "max.delivery.attempts": 2, "dead.letter.topic": f"{topic}.dead"}
    done: list[bytes] = []
    for _ in range(2):
        with pytest.raises(ZeroDivisionError), opened(**settings) as dies:
            die_at(dies, topic, b"2", done)
    survives = opened(**settings)
    survives.subscribe([topic])
    while b"5" not in done:
        done += [record.value for record in survives.poll(1.0)]
    assert [value for value in dict.fromkeys(done) if value != b"2"] == [b"0", b"1", b"3", b"4", b"5"]
    assert b"2" not in done
    looking = opened()
    looking.subscribe([f"{topic}.dead"])
    assert [letter.value for letter in read(looking, 1)] == [b"2"]
    nothing_comes(looking)


def live(
    server: Server, topic: str, kind: str, group: str, way: str, **more: object
) -> subprocess.CompletedProcess[str]:
    """One life of a consumer, until it dies of `2` or has read all."""
    settings = {"bootstrap.servers": server.url, "group.id": group, "auto.offset.reset": "earliest"} | {
        name.replace("_", "."): value for name, value in more.items()
    }
    command = [sys.executable, "-m", "tests.support.dies_of_it", kind, json.dumps(settings), topic, way]
    return subprocess.run(
        command, capture_output=True, text=True, timeout=DEADLINE_S, check=False, cwd=ROOT, env=environment()
    )


def check_letter(server: Server, group: str, attempts: int) -> None:
    """There is one, and no other."""
    with Consumer({"bootstrap.servers": server.url, "group.id": new_group()}) as looking:
        looking.subscribe([f"{group}.dlq"])
        (letter,) = read(looking, 1)
        assert nothing_comes(looking)
    said = {each.name: each.value for each in letter.headers}
    assert (letter.value, said["lakelog.dlq.offset"]) == (b"2", b"2")
    assert said["lakelog.dlq.attempts"] == b"%d" % attempts


@pytest.mark.parametrize(
    ("kind", "way", "attempts", "more"),
    [
        ("threads", "exit", 10, {}),
        ("tasks", "signal", 3, {"max_delivery_attempts": 3}),
        ("threads", "exit", 3, {"max_delivery_attempts": 3, "enable_auto_commit": False, "max_poll_records": 2}),
    ],
    ids=["as it is", "another kind", "without a commit"],
)
def test_a_record_that_kills_the_process_itself_is_given_up_after_so_many_deaths(
    server: Server, topic: str, kind: str, way: str, attempts: int, more: dict[str, object]
):
    """The first of these takes its time, as the default is for real: ten processes die, one after the other."""
    send(server, topic, *(b"%d" % number for number in range(6)), partition=0)
    group = new_group()
    lives = [live(server, topic, kind, group, way, group_instance_id="one", **more) for _ in range(attempts + 1)]
    died = {"exit": 3, "signal": -signal.SIGKILL}[way]
    assert [each.returncode for each in lives] == [died] * attempts + [0], lives[-1].stderr
    done = [value for each in lives for value in each.stdout.split()]
    assert list(dict.fromkeys(done)) == ["0", "1", "3", "4", "5"]
    check_letter(server, group, attempts)


def test_a_record_that_kills_is_given_up_also_where_the_server_dies_in_between(tmp_path: Path):
    group, done = new_group(), list[str]()
    for number in range(3):
        with serving(tmp_path) as server:
            topic = "numbers"
            if number == 0:
                assert httpx.put(f"{server.url}/topics/{topic}").status_code == 201
                send(server, topic, *(b"%d" % number for number in range(6)), partition=0)
            life = live(server, topic, "threads", group, "error", max_delivery_attempts=2)
            assert life.returncode == (number < 2), life.stderr
            done += life.stdout.split()
            if number == 2:
                check_letter(server, group, 2)
            else:
                server.kill()
    assert list(dict.fromkeys(done)) == ["0", "1", "3", "4", "5"]
