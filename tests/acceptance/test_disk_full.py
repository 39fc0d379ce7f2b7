"""A server whose disk runs full: it says no in so many words, answers readers, and goes on when there is room."""

from __future__ import annotations

import base64
import random
from pathlib import Path
from typing import Any

import httpx

from tests.support.serving import Server, serving, wait_for
from tests.support.small_disk import fill, small_disk

JSON = {"Content-Type": "application/vnd.kafka.binary.v2+json"}
SIZE = 40_000


def produce(server: Server, number: int) -> httpx.Response:
    value = base64.b64encode(b"%06d" % number + random.Random(number).randbytes(SIZE)).decode()
    body: dict[str, Any] = {"records": [{"value": value, "partition": 0}]}
    return httpx.post(f"{server.url}/topics/orders", json=body, headers=JSON, timeout=30)


def read(server: Server) -> list[int]:
    """The numbers of all records, a page at a time."""
    found: list[int] = []
    while True:
        query = {"offset": len(found), "max_bytes": 500_000}
        headers = {"Accept": "application/vnd.kafka.binary.v2+json"}
        url = f"{server.url}/topics/orders/partitions/0/records"
        answer = httpx.get(url, params=query, headers=headers, timeout=30)
        assert answer.status_code == 200, answer.text
        part = answer.json()
        if not part:
            return found
        assert [record["offset"] for record in part] == list(range(len(found), len(found) + len(part)))
        found += [int(base64.b64decode(record["value"])[:6]) for record in part]


def test_a_server_on_a_full_disk_refuses_reads_on_and_goes_on_by_itself(tmp_path: Path):
    with small_disk(tmp_path / "disk", megabytes=16) as disk:
        settings = {"auto_create_topics": True}
        with serving(disk / "root", topic_defaults={"lakelog.commit.interval.ms": 100}, **settings) as server:
            stored = [number for number in range(3) if produce(server, number).status_code == 200]
            assert stored == [0, 1, 2]
            ballast = fill(disk)
            number = 3
            while (answer := produce(server, number)).status_code == 200:
                stored.append(number)
                number += 1
                assert number < 400
            assert answer.status_code == 503, answer.text
            assert answer.json()["outcome"] == "not_attempted", answer.text
            assert read(server) == stored
            assert httpx.get(f"{server.url}/topics").json() == ["orders"]

            ballast.unlink()
            number += 1
            wait_for(lambda: produce(server, number).status_code == 200, "a request after there was room again")
            assert read(server) == [*stored, number]
        with serving(disk / "root", **settings) as server:
            assert read(server) == [*stored, number]
