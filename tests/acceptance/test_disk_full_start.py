"""A server that was killed on a full disk: it starts, serves what is there, and room is made by what only it can do."""

from __future__ import annotations

import base64
import os
import random
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import pytest

from delta_log.operations import check
from delta_log.runtime.fullness import ballast_size
from tests.architecture.project_files import ROOT
from tests.support.figures import metric
from tests.support.serving import DEADLINE_S, Server, environment, serving, wait_for
from tests.support.small_disk import fill, small_disk, small_ext4

BINARY = "application/vnd.kafka.binary.v2+json"
JSON = {"Content-Type": BINARY}
SIZE = 40_000
#: What leaves a table is deleted a hundred commits later.
TOPIC = {"lakelog.commit.interval.ms": 100, "lakelog.history.commits": 100, "file.delete.delay.ms": 0}
SETTINGS: dict[str, Any] = {"auto_create_topics": True, "ballast_bytes": 64 * 1024 * 1024, "topic_defaults": TOPIC}
NOT_NOW = 50310
#: One for hundreds of requests.
CLIENT = httpx.Client()


@pytest.fixture
def disk(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Path]:
    kind = small_ext4 if getattr(request, "param", "tmpfs") == "ext4" else small_disk
    with kind(tmp_path / "disk", megabytes=64) as place:
        yield place


def produce(server: Server, number: int, topic: str = "orders") -> httpx.Response:
    value = base64.b64encode(b"%06d" % number + random.Random(number).randbytes(SIZE)).decode()
    body: dict[str, Any] = {"records": [{"value": value, "partition": 0}]}
    return CLIENT.post(f"{server.url}/topics/{topic}", json=body, headers=JSON)


def read(server: Server, topic: str = "orders", offset: int = 0) -> list[int]:
    """The numbers of all records from an offset on, a page at a time."""
    found: list[int] = []
    while True:
        query = {"offset": offset + len(found), "max_bytes": 500_000}
        url = f"{server.url}/topics/{topic}/partitions/0/records"
        answer = CLIENT.get(url, params=query, headers={"Accept": BINARY})
        assert answer.status_code == 200, answer.text
        part = answer.json()
        if not part:
            return found
        found += [int(base64.b64decode(record["value"])[:6]) for record in part]


def produce_until_refused(server: Server, stored: list[int]) -> httpx.Response:
    while (answer := produce(server, len(stored))).status_code == 200:
        assert answer.json()["offsets"][0]["offset"] == len(stored)
        stored.append(len(stored))
        assert len(stored) < 4000
        wait_for(lambda: is_tabled(server) or metric(server, "lakelog_disk_full"), "the table, or a disk that is full")
    assert (answer.status_code, answer.json()["outcome"]) == (503, "not_attempted"), answer.text
    return answer


def is_tabled(server: Server) -> bool:
    """Whether the tables have it all: who fills a disk within a second leaves more than a small ballast can table."""
    return metric(server, "lakelog_untabled_bytes") == 0


def test_a_server_killed_on_a_full_disk_starts_again_and_again_reads_and_refuses_writes(disk: Path):
    """Others take what it gives back: in the end nothing of the ballast is left, and it starts all the same."""
    stored: list[int] = []
    with serving(disk / "root", **SETTINGS) as server:
        while len(stored) < 20:
            assert produce(server, len(stored)).status_code == 200
            stored.append(len(stored))
        fill(disk)
        produce_until_refused(server, stored)
        server.kill()
    left: list[int] = []
    while not left or left[-1]:
        fill(disk)
        left.append(held(disk))
        with serving(disk / "root", **SETTINGS) as server:
            assert read(server) == stored
            fill(disk)
            refused = produce_until_refused(server, stored)
            assert refused.json()["error_code"] == NOT_NOW, refused.text
            assert "retry-after" in refused.headers
            assert CLIENT.get(f"{server.url}/topics").json() == ["orders"]
            assert read(server) == stored
            server.kill()
        assert len(left) < 40
    assert left == sorted(left, reverse=True)
    (disk / "ballast").unlink()
    with serving(disk / "root", **SETTINGS) as server:
        assert read(server) == stored
        assert produce(server, len(stored)).status_code == 200
        wait_for(lambda: held(disk), "the ballast")
    assert check(disk / "root").exit_code == 0


@pytest.mark.parametrize(("disk", "way"), [("ext4", "delete records"), ("tmpfs", "retention")], indirect=["disk"])
def test_what_makes_room_goes_on_after_a_kill_on_a_full_disk_and_writes_come_back_by_themselves(disk: Path, way: str):
    stored: list[int] = []
    whole = ballast_size(64 * 1024 * 1024, os.statvfs(disk).f_blocks * os.statvfs(disk).f_frsize)
    with serving(disk / "root", **SETTINGS) as server:
        while len(stored) < 200:
            assert produce(server, len(stored)).status_code == 200
            stored.append(len(stored))
        wait_for(lambda: held(disk) == whole and is_tabled(server), "the ballast, and the tables")
        fill(disk)
        produce_until_refused(server, stored)
        server.kill()
    fill(disk)
    with serving(disk / "root", **SETTINGS) as server:
        fill(disk)
        produce_until_refused(server, stored)
        assert produce(server, 0, topic="another").json()["error_code"] == NOT_NOW
        wait_for(lambda: try_to_commit(server, 3), "an offset that is taken, as some of the ballast is given back")
        assert change_a_setting(server, 3).status_code == 204
        assert 0 < held(disk) < whole
        begin = {"delete records": delete_records, "retention": run_retention}[way](server, disk)
        assert 0 < begin <= len(stored) - 10, "ten records stay, and the rest of the file that they are in"
        for number in range(101):  # so many commits later the history does not need the files any more
            assert change_a_setting(server, 1000 + number).status_code == 204
        taken = wait_for(lambda: try_to_produce(server, stored), "a request that is taken again")
        assert taken == len(stored) - 1
        wait_for(lambda: held(disk) == whole, "the ballast as it was")
        assert read(server, offset=begin) == stored[begin:]
        assert produce(server, 0, topic="another").status_code == 200
    with serving(disk / "root", **SETTINGS) as server:
        assert read(server, offset=begin) == stored[begin:]
    assert check(disk / "root").exit_code == 0


def try_to_produce(server: Server, stored: list[int]) -> int | None:
    """The offset of the next record, where it is taken."""
    answer = produce(server, len(stored))
    if answer.status_code != 200:
        assert (answer.status_code, answer.json()["outcome"]) == (503, "not_attempted"), answer.text
        return None
    stored.append(len(stored))
    return int(answer.json()["offsets"][0]["offset"])


def delete_records(server: Server, _: Path) -> int:
    url = f"{server.url}/topics/orders/partitions/0/records:delete"
    answer = CLIENT.post(url, json={"before_offset": 190})
    assert answer.status_code == 200, answer.text
    return 190


def run_retention(server: Server, disk: Path) -> int:
    """By the job, beside the server."""
    assert alter(server, "retention.bytes", 10 * SIZE).status_code == 204
    command = [sys.executable, "-m", "lakelog", "jobs", "run", "retention", "--data", str(disk / "root"), "--all"]
    subprocess.run([*command, "--engine", "local"], check=True, cwd=ROOT, env=environment(), timeout=DEADLINE_S)
    url = f"{server.url}/topics/orders/partitions/0/offsets"
    first = wait_for(lambda: CLIENT.get(url).json()["beginning_offset"], "a log start that the server knows of")
    return int(first)


def try_to_commit(server: Server, offset: int) -> bool:
    """Whether it is taken: who comes before somebody looked at the disk is to ask again."""
    body = {"offsets": [{"topic": "orders", "partition": 0, "next_offset": offset}]}
    answer = CLIENT.put(f"{server.url}/groups/readers/offsets", json=body)
    if answer.status_code != 204:
        assert (answer.status_code, answer.json()["outcome"]) == (503, "not_attempted"), answer.text
        return False
    return True


def change_a_setting(server: Server, value: int) -> httpx.Response:
    return alter(server, "max.message.bytes", 1_000_000 + value)


def alter(server: Server, name: str, value: int) -> httpx.Response:
    cluster = CLIENT.get(f"{server.url}/v3/clusters").json()["data"][0]["cluster_id"]
    url = f"{server.url}/v3/clusters/{cluster}/topics/orders/configs/{name}"
    return CLIENT.put(url, json={"value": str(value)})


def held(disk: Path) -> int:
    """What the ballast holds."""
    found = 0
    for path in (disk / "root" / "journal").glob("ballast-*"):
        with suppress(FileNotFoundError):  # given back meanwhile
            found += path.stat().st_size
    return found
